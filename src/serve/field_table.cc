#include "serve/field_table.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace isotope::serve {
namespace {

constexpr double kMost = 3e38, kWhole = 9223372036854775807.0;

constexpr FieldRow kTable[] = {
    {"model", kString, kInBoth | kInPooling | kReadElsewhere, 0, -1, false, "one of the served names; the first one without it"},
    {"stream", kBool, kInBoth, 0, -1, false, "server-sent events instead of one body"},
    {"stream_options", kObject, kInBoth, 0, -1, false, "include_usage, continuous_usage_stats"},
    {"max_tokens", kInteger, kInBoth, 0, kWhole, false, "most tokens of an answer"},
    {"max_completion_tokens", kInteger, kInBoth, 0, kWhole, false, "the same; it wins"},
    {"temperature", kNumber, kInBoth, 0, kMost, false, "0 takes the likeliest token"},
    {"top_p", kNumber, kInBoth, 0, 1, true, "the likeliest tokens that together have this probability"},
    {"top_k", kInteger, kInBoth, -1, kWhole, false, "so many of the likeliest tokens; 0 or -1: all"},
    {"min_p", kNumber, kInBoth, 0, 1, false, "tokens of at least this share of the likeliest one's probability"},
    {"typical_p", kNumber, kInBoth, 0, 1, true, "locally typical sampling"},
    {"repetition_penalty", kNumber, kInBoth, 0, kMost, true, "divides the scores of tokens that have occurred"},
    {"presence_penalty", kNumber, kInBoth, -2, 2, false, "taken from the scores of tokens that have been written"},
    {"frequency_penalty", kNumber, kInBoth, -2, 2, false, "the same for each time"},
    {"dry_multiplier", kNumber, kInBoth, 0, kMost, false, "DRY sampler; 0 turns it off"},
    {"dry_base", kNumber, kInBoth, 0, kMost, false, "DRY sampler"},
    {"dry_allowed_length", kInteger, kInBoth, 0, kWhole, false, "DRY sampler"},
    {"dry_penalty_last_n", kInteger, kInBoth, -1, kWhole, false, "DRY sampler; -1: the whole context"},
    {"dry_sequence_breakers", kArray, kInBoth | kReadElsewhere, 0, -1, false, "DRY sampler: texts that end a repetition"},
    {"xtc_probability", kNumber, kInBoth, 0, 1, false, "XTC sampler"},
    {"xtc_threshold", kNumber, kInBoth, 0, 1, false, "XTC sampler"},
    {"n", kInteger, kInBoth | kReadElsewhere, 1, kWhole, false, "choices for each prompt"},
    {"best_of", kInteger, kInBoth | kReadElsewhere, 1, kWhole, false, "candidates, of which the n best are returned"},
    {"seed", kInteger | kNumber, kInBoth | kReadElsewhere, 0, -1, false, "of the random numbers; drawn when absent"},
    {"stop", kString | kArray, kInBoth | kReadElsewhere, 0, -1, false, "texts that end an answer"},
    {"stop_token_ids", kArray, kInBoth, 0, -1, false, "tokens that end an answer"},
    {"min_tokens", kInteger, kInBoth, 0, kWhole, false, "no end before so many tokens"},
    {"ignore_eos", kBool, kInBoth, 0, -1, false, "the model's end tokens end nothing"},
    {"include_stop_str_in_output", kBool, kInBoth, 0, -1, false, "the text that ended it belongs to the answer"},
    {"skip_special_tokens", kBool, kInBoth, 0, -1, false, "control tokens are not written"},
    {"logit_bias", kObject, kInBoth, 0, -1, false, "token id to a number from -100 to 100"},
    {"allowed_token_ids", kArray, kInBoth, 0, -1, false, "no other tokens"},
    {"bad_words", kArray, kInBoth | kReadElsewhere, 0, -1, false, "texts that are never written"},
    {"prompt_logprobs", kInteger, kInBoth | kReadElsewhere, 0, kWhole, false, "log-probabilities of the prompt's tokens"},
    {"truncate_prompt_tokens", kInteger, kInBoth | kInPooling | kReadElsewhere, -1, kWhole, false, "keep so many tokens of the prompt; -1: what fits"},
    {"truncation_side", kString, kInBoth, 0, -1, false, "left or right"},
    {"add_special_tokens", kBool, kInBoth | kInPooling, 0, -1, false, "the tokenizer adds its own control tokens"},
    {"return_token_ids", kBool, kInBoth, 0, -1, false, "ids beside the texts"},
    {"return_tokens_as_token_ids", kBool, kInBoth, 0, -1, false, "token_id:N instead of texts in log-probabilities"},
    {"timings", kBool, kInBoth, 0, -1, false, "what the engine measured"},
    {"priority", kInteger, kInBoth | kInPooling, -2147483648.0, 2147483647.0, false, "lower runs first"},
    {"deadline_ms", kInteger, kInBoth, 1, 2147483647.0, false, "503 if the answer has not begun by then"},
    {"data_parallel_rank", kInteger, kInBoth, 0, 2147483647.0, false, "the rank that answers"},
    {"cache_salt", kString, kInBoth, 0, -1, false, "only requests of the same salt share prefixes"},
    {"request_id", kString, kInBoth, 0, -1, false, "part of the answer's id"},
    {"user", kString, kInBoth | kInPooling, 0, -1, false, "whose fair share it takes"},
    {"response_format", kObject, kInBoth | kReadElsewhere, 0, -1, false, "the form of the answer"},
    {"structured_outputs", kObject, kInBoth, 0, -1, false, "the form of the answer: json, regex, choice, grammar, json_object or structural_tag"},
    {"metadata", kObject, kInBoth, 0, -1, false, "no effect"},
    {"store", kBool, kInBoth, 0, -1, false, "no effect"},
    {"service_tier", kString, kInBoth, 0, -1, false, "no effect"},
    {"verbosity", kString, kInBoth, 0, -1, false, "no effect"},
    {"prompt_cache_key", kString, kInBoth, 0, -1, false, "no effect"},
    {"safety_identifier", kString, kInBoth, 0, -1, false, "no effect"},
    {"prediction", kObject, kInBoth, 0, -1, false, "no effect"},
    {"audio", kObject, kInBoth, 0, -1, false, "no effect"},
    {"reasoning_effort", kString, kInBoth, 0, -1, false, "a variable of the chat template; \"none\" sets enable_thinking to false as well"},
    {"spaces_between_special_tokens", kBool, kInBoth, 0, -1, false, "no effect"},
    {"length_penalty", kNumber, kInBoth, 0, -1, false, "no effect"},
    {"stream_interval", kNumber, kInBoth, 0, -1, false, "no effect"},
    {"vllm_xargs", kObject, kInBoth, 0, -1, false, "no effect"},
    {"guided_decoding_backend", kString, kInBoth, 0, -1, false, "no effect"},
    {"guided_whitespace_pattern", kString, kInBoth, 0, -1, false, "no effect"},
    {"function_call", kString | kObject, kInBoth, 0, -1, false, "no effect"},
    {"parallel_tool_calls", kBool, kInBoth, 0, -1, false, "more than one call in an answer"},
    {"include_reasoning", kBool, kInBoth, 0, -1, false, "reasoning is returned"},
    {"prompt", kString | kArray, kInCompletion | kReadElsewhere, 0, -1, false, "text, token ids, or an array of either"},
    {"logprobs", kInteger, kInCompletion | kReadElsewhere, 0, kWhole, false, "log-probabilities of so many likeliest tokens"},
    {"echo", kBool, kInBoth, 0, -1, false, "the prompt's text comes first"},
    {"messages", kArray, kInChat | kReadElsewhere, 0, -1, false, "the conversation"},
    {"tools", kArray, kInChat, 0, -1, false, "functions that the model may call"},
    {"tool_choice", kString | kObject, kInChat | kReadElsewhere, 0, -1, false, "auto, none, required or a function"},
    {"top_logprobs", kInteger, kInChat | kReadElsewhere, 0, kWhole, false, "log-probabilities of so many likeliest tokens; needs logprobs"},
    {"thinking_token_budget", kInteger, kInChat, -1, kWhole, false, "most tokens of the reasoning, which is then closed; -1: no limit"},
    {"chat_template", kString, kInChat, 0, -1, false, "replaces the server's template"},
    {"chat_template_kwargs", kObject, kInChat, 0, -1, false, "variables of the template"},
    {"documents", kArray, kInChat, 0, -1, false, "given to the template"},
    {"add_generation_prompt", kBool, kInChat, 0, -1, false, "the prompt ends where the assistant's message begins"},
    {"continue_final_message", kBool, kInChat, 0, -1, false, "the answer goes on with the last message"},
    {"input", kString | kArray, kInEmbedding | kReadElsewhere, 0, -1, false, "text, token ids, or an array of either; one vector for each"},
    {"encoding_format", kString, kInEmbedding | kReadElsewhere, 0, -1, false, "float or base64 (of little-endian float32)"},
    {"dimensions", kInteger, kInEmbedding | kReadElsewhere, 1, 1048576, false, "length of the vectors, where the model was trained to have them cut"},
    {"normalize", kBool, kInEmbedding, 0, -1, false, "vectors have length 1; default: what the model's files say"},
    {"use_activation", kBool, kInRerank | kInScore | kReadElsewhere, 0, -1, false, "false: a cross-encoder's scores as they are, not through the sigmoid that its files name"},
    {"activation", kBool, kInRerank | kInScore | kReadElsewhere, 0, -1, false, "the older name of use_activation"},
    {"query", kString, kInRerank | kReadElsewhere, 0, -1, false, "what the documents are compared with"},
    {"documents", kArray, kInRerank | kReadElsewhere, 0, -1, false, "texts, or objects with a text"},
    {"top_n", kInteger, kInRerank | kReadElsewhere, 0, 2147483647.0, false, "so many of the best; 0: all"},
    {"return_documents", kBool, kInRerank, 0, -1, false, "the texts beside their scores (default)"},
    {"text_1", kString | kArray, kInScore | kReadElsewhere, 0, -1, false, "one text, or as many as text_2 has"},
    {"text_2", kString | kArray, kInScore | kReadElsewhere, 0, -1, false, "texts to compare with the first"},
};

struct KindName {
  unsigned bit;
  const char *schema, *name;
  bool (Json::*is)() const noexcept;
};
constexpr KindName kKinds[] = {{kBool, "boolean", "a boolean", &Json::is_boolean}, {kInteger, "integer", "an integer", &Json::is_number}, {kNumber, "number", "a number", &Json::is_number},
                               {kString, "string", "a string", &Json::is_string},  {kArray, "array", "an array", &Json::is_array},       {kObject, "object", "an object", &Json::is_object}};

bool bounded(const FieldRow& r) { return r.high >= r.low; }

Result<void> check(const Fields& f, const FieldRow& r, const Json& v) {
  if (r.kinds == kInteger) {
    const int64_t high = r.high >= kWhole ? INT64_MAX : int64_t(r.high);
    ISO_CHECK_OK(f.integer(r.name, int64_t(r.low), high));
    return {};
  }
  if (r.kinds == kNumber && bounded(r)) {
    ISO_CHECK_OK(f.number(r.name, r.low, r.high, r.low_open));
    return {};
  }
  std::string expected;
  for (const KindName& k : kKinds) {
    if ((r.kinds & k.bit) == 0) continue;
    if ((v.*k.is)()) return {};
    expected += (expected.empty() ? "" : " or ") + std::string(k.name);
  }
  return bad_field(f.path(r.name), Fields::mismatch(expected, v));
}

}  // namespace

std::span<const FieldRow> field_table() { return kTable; }

const FieldRow* field_row(std::string_view name) {
  const auto found = std::find_if(std::begin(kTable), std::end(kTable), [&](const FieldRow& r) { return name == r.name; });
  return found == std::end(kTable) ? nullptr : &*found;
}

Result<void> check_fields(const Fields& f, FieldPlace place) {
  for (const FieldRow& r : kTable) {
    const Json* v = (r.place & place) != 0 && (r.place & kReadElsewhere) == 0 ? f.find(r.name) : nullptr;
    if (v != nullptr) ISO_CHECK_OK(check(f, r, *v));
  }
  return {};
}

Json field_schema(const FieldRow& r) {
  Json types = Json::array();
  for (const KindName& k : kKinds) {
    if ((r.kinds & k.bit) != 0) types.push_back(k.schema);
  }
  types.push_back("null");
  Json out = {{"type", std::move(types)}};
  if (bounded(r)) {
    const auto bound = [&](double v) { return r.kinds == kInteger ? Json(int64_t(v)) : Json(v); };
    out[r.low_open ? "exclusiveMinimum" : "minimum"] = bound(r.low);
    if (r.high < kMost) out["maximum"] = r.high >= kWhole ? Json(INT64_MAX) : bound(r.high);
  }
  out["description"] = r.meaning;
  return out;
}

}  // namespace isotope::serve
