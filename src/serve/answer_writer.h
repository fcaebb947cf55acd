// How an answer is written in another API's words than chat completions'. One object for each answer; it has one choice.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "serve/answer_format.h"
#include "serve/api_error.h"
#include "serve/http_types.h"

namespace isotope::serve {

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  /// Appends the events for a part of a stream; what was first says so.
  virtual void part(const Delta&, const Job&, std::string& out) = 0;
  /// The stream's last events, also after an error.
  virtual void end(const Job&, std::string& out) = 0;
  /// The body of an answer that is not streamed.
  virtual Json whole(const Delta&, const Job&) = 0;
  virtual Json error(const ApiError&) = 0;
};

/// Makes the writer once the call's names are known. Called on the thread that answers.
using WriterFactory = std::function<std::unique_ptr<AnswerWriter>(const Call&, const Frontend&)>;

/// "event: NAME\ndata: JSON\n\n"
std::string named_event(const char* name, const Json& data);
/// Tokens of the reasoning, counted by encoding its text again.
int64_t reasoning_tokens(const Frontend&, const std::string& reasoning, int64_t completion_tokens);

}  // namespace isotope::serve
