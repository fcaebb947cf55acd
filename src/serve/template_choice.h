// Which chat template is meant by --chat-template, and what a template expects of its messages.
#pragma once

#include <string>

#include "isotope/engine.h"
#include "isotope/result.h"

namespace isotope::serve {

/// Source text for `wanted`: the template itself (it holds "{{" or "{%"), a name among the model's or the built-in ones, or a file.
Result<std::string> find_template(const std::string& wanted, const VocabSource& vocab);
/// The model's own default template, or "".
std::string model_template(const VocabSource& vocab);
/// The template walks over a message's content, so it takes a list of parts; others want one string.
bool takes_content_parts(const std::string& source);

}  // namespace isotope::serve
