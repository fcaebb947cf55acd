// Anthropic's messages: requests to the chat form, answers and streams in their shape.
#pragma once

#include "serve/answer_writer.h"
#include "serve/field_names.h"

namespace isotope::serve {

struct ChatOfMessages {
  Json chat;
  FieldNames names;  ///< of the chat request's fields, as the messages request has them
};
/// The chat request that a messages request stands for. Errors name the fields of the messages request.
Result<ChatOfMessages> chat_of_messages(const Json& body, bool counting);
std::unique_ptr<AnswerWriter> messages_writer(const Call&, const Frontend&);
/// An error answer in the usual shape becomes one in Anthropic's; everything else stays.
Reply in_messages_shape(Reply);
/// {"type": "error", "error": {…}} for an error in the usual shape.
Json messages_error(int status, const std::string& message);

}  // namespace isotope::serve
