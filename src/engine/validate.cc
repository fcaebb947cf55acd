#include "engine/validate.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

namespace isotope::engine {

namespace {

using P = SamplingParams;

tl::unexpected<Error> bad(std::string_view field, std::string what, std::string remedy) {
  return fail(Code::invalid_argument, std::move(what), fmt::format("request field '{}'", field), std::move(remedy));
}

struct FloatField {
  const char* name;
  float P::*value;
  float least, most;
  bool above_least;  ///< the least value itself is not allowed
};
constexpr float kMax = 3.402823466e38f;
constexpr FloatField kFloats[] = {
    {"temperature", &P::temperature, 0, kMax, false},
    {"top_p", &P::top_p, 0, 1, true},
    {"min_p", &P::min_p, 0, 1, false},
    {"typical_p", &P::typical_p, 0, 1, true},
    {"repetition_penalty", &P::repetition_penalty, 0, kMax, true},
    {"presence_penalty", &P::presence_penalty, -2, 2, false},
    {"frequency_penalty", &P::frequency_penalty, -2, 2, false},
    {"dry_multiplier", &P::dry_multiplier, 0, kMax, false},
    {"dry_base", &P::dry_base, 0, kMax, false},
    {"xtc_probability", &P::xtc_probability, 0, 1, false},
    {"xtc_threshold", &P::xtc_threshold, 0, 1, false},
};

Result<void> check_floats(const P& p) {
  for (const FloatField& f : kFloats) {
    const float v = p.*f.value;
    if (std::isfinite(v) && v <= f.most && (f.above_least ? v > f.least : v >= f.least)) continue;
    return bad(f.name, fmt::format("{} is {}", f.name, v),
               f.most < kMax ? fmt::format("use a number {} {}, at most {}", f.above_least ? "above" : "from", f.least, f.most)
                             : fmt::format("use a finite number {} {}", f.above_least ? "above" : "of at least", f.least));
  }
  return {};
}

struct IntField {
  const char* name;
  int64_t value, least, most;
};

Result<void> check_ints(const P& p, int64_t vocab) {
  const IntField fields[] = {
      {"top_k", p.top_k, -1, INT32_MAX},
      {"max_tokens", p.max_tokens, 0, INT64_MAX},
      {"min_tokens", p.min_tokens, 0, p.max_tokens},
      {"logprobs", p.logprobs, -1, vocab},
      {"prompt_logprobs", p.prompt_logprobs, -1, vocab},
      {"dry_allowed_length", p.dry_allowed_length, 0, INT32_MAX},
      {"dry_penalty_last_n", p.dry_penalty_last_n, -1, INT32_MAX},
      {"choice", p.choice, 0, INT32_MAX},
  };
  for (const IntField& f : fields)
    if (f.value < f.least || f.value > f.most)
      return bad(f.name, fmt::format("{} is {}", f.name, f.value), fmt::format("use a number from {} to {}", f.least, f.most));
  return {};
}

Result<void> check_id(std::string_view field, int64_t id, int64_t vocab) {
  if (id >= 0 && id < vocab) return {};
  return bad(field, fmt::format("token id {} is out of vocabulary: the model has {} tokens", id, vocab),
             fmt::format("use ids from 0 to {}", vocab - 1));
}

Result<void> check_ids(std::string_view field, const std::vector<int32_t>& ids, int64_t vocab) {
  for (const int32_t id : ids) ISO_CHECK_OK(check_id(field, id, vocab));
  return {};
}

Result<void> check_lists(std::string_view field, const std::vector<std::vector<int32_t>>& lists, int64_t vocab) {
  for (const auto& l : lists) {
    if (l.empty()) return bad(field, fmt::format("{} holds an empty token sequence", field), "leave empty sequences out");
    ISO_CHECK_OK(check_ids(field, l, vocab));
  }
  return {};
}

Result<void> check_tokens(const P& p, int64_t vocab) {
  for (const auto& [id, bias] : p.logit_bias) {
    ISO_CHECK_OK(check_id("logit_bias", id, vocab));
    if (!std::isfinite(bias))
      return bad("logit_bias", fmt::format("the bias of token {} is {}", id, bias), "use a finite number");
  }
  ISO_CHECK_OK(check_ids("allowed_token_ids", p.allowed_token_ids, vocab));
  ISO_CHECK_OK(check_ids("stop_token_ids", p.stop_token_ids, vocab));
  ISO_CHECK_OK(check_lists("bad_words", p.bad_words, vocab));
  return check_lists("dry_sequence_breakers", p.dry_sequence_breakers, vocab);
}

Result<void> check_length(const Request& r, const ModelInfo& m) {
  const std::string raise = m.cut_by.empty() ? "raise --max-model-len" : "unset " + m.cut_by;
  const int64_t n = int64_t(r.prompt.size()), out = r.sampling.max_tokens;
  if (n == 0) return bad("prompt", "the prompt has no tokens", "send at least one token");
  if (n > m.max_model_len || (n == m.max_model_len && out > 0))
    return bad("prompt",
               fmt::format("the prompt has {} tokens, the context holds {}{} (n_prompt_tokens={}, n_ctx={})", n, m.max_model_len,
                           out > 0 ? " with at least one token of output" : "", n, m.max_model_len),
               "shorten the prompt or " + raise);
  if (out > m.max_model_len - n)
    return bad(
        "max_tokens",
        fmt::format(
            "the prompt has {} tokens and {} are asked for the output, the context holds {} (n_prompt_tokens={}, n_ctx={})", n,
            out, m.max_model_len, n, m.max_model_len),
        fmt::format("ask for at most {} tokens, shorten the prompt or {}", m.max_model_len - n, raise));
  return {};
}

}  // namespace

Result<void> validate(const Request& r, const ModelInfo& m) {
  if (!r.sink) return bad("sink", "the request has no sink", "set Request::sink");
  if (r.deadline_ms < 0) return bad("deadline_ms", fmt::format("deadline_ms is {}", r.deadline_ms), "use a number of milliseconds, or 0 for none");
  ISO_CHECK_OK(check_ids("prompt", r.prompt, m.vocab));
  ISO_CHECK_OK(check_floats(r.sampling));
  ISO_CHECK_OK(check_ints(r.sampling, m.vocab));
  ISO_CHECK_OK(check_tokens(r.sampling, m.vocab));
  return check_length(r, m);
}

}  // namespace isotope::engine
