// Answers, streamed or whole, joined for comparison.
#pragma once

#include <string>
#include <vector>

#include "serve/json_body.h"

namespace isotope::test {

/// One choice of an answer.
struct Joined {
  std::string text, finish;
  serve::Json stop_reason, tokens = serve::Json::array(), offsets = serve::Json::array(), logprobs = serve::Json::array(), ids = serve::Json::array();
};

/// The choices of one request; up to four. Expects status 200.
std::vector<Joined> ask(int port, serve::Json request, bool chat, bool stream);
/// Text, ids, reasons and log-probabilities are the same both ways, and the log-probability entries join to the text.
void expect_streamed_equals_whole(int port, const serve::Json& request, bool chat);

}  // namespace isotope::test
