// The request fields that say what form an answer must have.
#pragma once

#include <optional>

#include "serve/fields.h"
#include "text/grammar/grammar.h"

namespace isotope::serve {

/// The one form that is asked for: `response_format`, `structured_outputs`, or their older spellings (`guided_…`, llama-server's `grammar` and
/// `json_schema`). Two of them are refused. Nothing is said yet of whether the form can be held.
Result<std::optional<text::GrammarSpec>> parse_structured(const Fields&);

}  // namespace isotope::serve
