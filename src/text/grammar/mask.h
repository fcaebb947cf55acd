// One sequence's place in a grammar.
#pragma once

#include <memory>

#include "isotope/token_mask.h"
#include "text/grammar/grammar.h"
#include "text/grammar/xgrammar_api.h"

namespace isotope::text {

std::unique_ptr<TokenMask> make_mask(const xgrammar::CompiledGrammar&, const std::shared_ptr<GrammarCounters>&, const GrammarLimits&);

}  // namespace isotope::text
