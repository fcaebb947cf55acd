// The JSON of answers: choices, stream chunks, log-probabilities, usage, timings, in OpenAI's and vLLM's shapes.
#pragma once

#include <string>
#include <vector>

#include "serve/call.h"

namespace isotope::serve {

/// A stretch of one choice's output: all of it, or what a stream sends now.
struct Delta {
  int index = 0;
  std::string text;
  std::string reasoning;
  Json tool_calls = Json::array();                    ///< whole calls, or what a stream sends of one
  std::vector<Entry> entries;
  std::vector<int32_t> ids;
  const std::vector<int32_t>* prompt_ids = nullptr;   ///< set once for each choice when token ids were asked
  const Choice* finished = nullptr;                   ///< set when this stretch is the last
  int64_t text_offset = 0;                            ///< code points before this stretch
  bool first = true;
  bool called = false;                                ///< the choice has made a tool call
};

/// Code points, as clients of text_offset count.
int64_t code_points(std::string_view text);

/// The object around choices; `chunk` for a stream.
Json envelope(const Call&, const Frontend&, bool chunk);
Json choice_json(const Call&, const Frontend&, const Delta&);
Json chunk_choice_json(const Call&, const Frontend&, const Delta&);
Json usage_json(const Usage&);
/// chat: one object for each token, with its alternatives.
Json chat_logprobs_json(const Call&, const Frontend&, const std::vector<Entry>&);
/// Why the cached part of the prompt ends where it ends, {cause, position}; null when all that was there has been reused.
Json cache_reason_json(const RequestStats&);
/// What the engine measured, with the seed; times in milliseconds where the name says so. llama-server's names where it has one.
Json timings_json(const Job&);
/// vLLM's list for the prompt: null for the first token, then a map from token id to {logprob, rank, decoded_token}.
Json prompt_logprobs_json(const Frontend&, const Choice&);
const char* finish_name(FinishReason);

}  // namespace isotope::serve
