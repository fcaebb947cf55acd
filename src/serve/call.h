// A parsed request for text: what to generate and how to write the answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "serve/frontend.h"
#include "serve/http_types.h"
#include "serve/job.h"
#include "serve/tools/reply_parser.h"
#include "text/grammar/grammar.h"

namespace isotope::serve {

struct Call {
  JobSpec spec;
  bool chat = false;
  bool stream = false;
  bool include_usage = false, continuous_usage = false;  ///< stream_options
  bool timings = false;
  bool return_token_ids = false;
  bool tokens_as_ids = false;       ///< "token_id:17" instead of text in log-probabilities
  std::string id;                   ///< "cmpl-…" or "chatcmpl-…"
  std::string model;
  std::string role = "assistant";
  int64_t created = 0;
  std::optional<text::GrammarSpec> form;   ///< what the answer must be; spec.grammar holds it
  ReplyPlan reply;                  ///< chat: how reasoning and tool calls are told from content
};

/// Limits of one request; stated in the errors that name them.
struct CallLimits {
  int max_choices = 128;            ///< n and best_of
  int max_children = 4096;          ///< prompts × best_of
  int max_logprobs = 20;
  size_t max_stops = 64, max_stop_bytes = 1024;   ///< every token is held against each of them
};

Api<Call> parse_completion(const Json& body, Frontend&, const CallLimits& = {});
Api<Call> parse_chat(const Json& body, Frontend&, const CallLimits& = {});
/// The chat template's input from a request body; shared by chat, /tokenize and /apply-template.
Result<ChatInput> parse_chat_input(const Json& body, const std::string& messages_field = "messages");
/// A random identifier of 32 hexadecimal digits.
std::string random_id();

}  // namespace isotope::serve
