// A conversation in the terminal: requests as a client would send them, answered in this process.
#pragma once

#include <functional>
#include <string>

#include "interrupt.h"
#include "serve/frontend.h"
#include "serve/job.h"
#include "serve/json_body.h"

namespace isotope::app {

struct Answer {
  std::string text;
  bool interrupted = false;
  FinishReason finish = FinishReason::none;
  serve::Usage usage;
  RequestStats stats;
};

struct Asking {
  bool raw = false;           ///< the body is one of /v1/completions, not of /v1/chat/completions
  bool conversation = false;  ///< there are earlier messages that could be forgotten
  std::function<bool(const std::string&)> on_text;  ///< gets the text as it comes; false ends the answer
};

/// Sends one request body. Ctrl-C ends the answer, and so does a full context: max_tokens is the most, not a demand. While a long prompt is read, a terminal
/// is told for how long. Errors name the flag or command that a field came from.
Result<Answer> ask(serve::Frontend&, serve::Json body, Interrupt&, const Asking&);

/// Removes what could move the cursor or recolour a terminal: a model's text is not trusted.
std::string printable(const std::string& text);

}  // namespace isotope::app
