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

/// Sends one request body of /v1/completions (raw) or /v1/chat/completions and hands out text as it comes. Ctrl-C ends the answer.
/// Errors name the flag or command that a field came from.
Result<Answer> ask(serve::Frontend&, const serve::Json& body, bool raw, Interrupt&, const std::function<void(const std::string&)>& on_text);

/// Removes what could move the cursor or recolour a terminal: a model's text is not trusted.
std::string printable(const std::string& text);

}  // namespace isotope::app
