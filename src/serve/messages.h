// A chat request's messages as a template wants them, and the cut that lets a model continue the last one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/api_error.h"
#include "text/tokenizer.h"

namespace isotope::serve {

/// Checks roles and contents. Content parts of type text are joined with line ends unless the template walks over parts itself;
/// other parts are refused. The arguments of tool calls become objects (clients send them as text). Unknown keys stay.
Result<Json> template_messages(const Json& messages, bool keep_parts);

/// Every role must be one of OpenAI's, or one that the template names: anything else is a client's mistake that no model has learnt to read.
/// The messages are those that template_messages() accepted.
Result<void> check_roles(const Json& messages, std::string_view template_source);

/// Cuts everything behind the last message's text, as the reference's continue_final_message does.
Result<void> cut_after_final_message(std::vector<text::Tokenizer::Piece>& pieces, const Json& messages);

/// The text of a message's content: a string, or its text parts joined; "" for none.
std::string content_text(const Json& message);

}  // namespace isotope::serve
