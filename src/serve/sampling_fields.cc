#include "serve/sampling_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "serve/field_table.h"
#include "serve/sampling_words.h"
#include "serve/structured_fields.h"

namespace isotope::serve {
namespace {

// Where numbers go; types and ranges stand in the field table.
struct FloatRow {
  const char* name;
  float SamplingParams::*field;
};
constexpr FloatRow kFloats[] = {
    {"temperature", &SamplingParams::temperature},
    {"top_p", &SamplingParams::top_p},
    {"min_p", &SamplingParams::min_p},
    {"typical_p", &SamplingParams::typical_p},
    {"repetition_penalty", &SamplingParams::repetition_penalty},
    {"presence_penalty", &SamplingParams::presence_penalty},
    {"frequency_penalty", &SamplingParams::frequency_penalty},
    {"dry_multiplier", &SamplingParams::dry_multiplier},
    {"dry_base", &SamplingParams::dry_base},
    {"xtc_probability", &SamplingParams::xtc_probability},
    {"xtc_threshold", &SamplingParams::xtc_threshold},
};

struct IntRow {
  const char* name;
  int32_t SamplingParams::*field;
};
constexpr IntRow kInts[] = {
    {"top_k", &SamplingParams::top_k},  // 0, -1 and anything from the vocabulary's size on: off
    {"dry_allowed_length", &SamplingParams::dry_allowed_length},
    {"dry_penalty_last_n", &SamplingParams::dry_penalty_last_n},
};

struct BoolRow {
  const char* name;
  bool Call::*field;
};
constexpr BoolRow kSwitches[] = {
    {"stream", &Call::stream},
    {"timings", &Call::timings},
    {"return_token_ids", &Call::return_token_ids},
    {"return_tokens_as_token_ids", &Call::tokens_as_ids},
};

struct Kind {
  unsigned bit;
  bool (Json::*is)() const noexcept;
  const char* name;
};
constexpr Kind kKinds[] = {{kBool, &Json::is_boolean, "a boolean"},
                           {kNumber, &Json::is_number, "a number"},
                           {kString, &Json::is_string, "a string"},
                           {kArray, &Json::is_array, "an array"},
                           {kObject, &Json::is_object, "an object"}};

struct Refusal {
  const char* name;
  unsigned kinds;    ///< types that the field has where it is supported
  unsigned empty;    ///< of these: whose empty value (or false) asks for nothing
  const char* why;
};
constexpr Refusal kRefused[] = {
    {"suffix", kString, kString, "inserting text before a suffix is not supported"},
    {"prompt_embeds", kString | kArray, kArray, "prompts are text or token ids"},
    {"use_beam_search", kBool, kBool, "beam search is not supported; best_of chooses among samples"},
    {"functions", kArray, kArray, "functions have been replaced by tools, which this server takes"},
    {"web_search_options", kObject, 0, "the server searches nothing"},
    {"logprob_token_ids", kArray, kArray, "log-probabilities of chosen tokens are not supported"},
    {"kv_transfer_params", kObject, kObject, "transferring the KV cache to another server is not supported yet"},
};

Result<void> check_kind(const char* name, const Json& v, unsigned kinds) {
  std::string expected;
  for (const Kind& k : kKinds) {
    if ((kinds & k.bit) == 0) continue;
    if ((v.*k.is)()) return {};
    expected += (expected.empty() ? "" : " or ") + std::string(k.name);
  }
  return bad_field(name, Fields::mismatch(expected, v));
}

bool asks_for_nothing(const Json& v, unsigned empty) {
  for (const Kind& k : kKinds) {
    if ((empty & k.bit) != 0 && (v.*k.is)()) return v == false || v == "" || (v.is_structured() && v.empty());
  }
  return false;
}

// OpenAI: the kinds of output wanted.
Result<void> refuse_modalities(const Fields& f) {
  ISO_TRY(const auto list, f.strings("modalities", 8, false));
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == "text") continue;
    return tl::unexpected(field_error(fmt::format("modalities[{}]", i), "this model writes text only, got " + shown(Json(list[i])), "send [\"text\"]", Code::unsupported));
  }
  return {};
}

Result<void> parse_seed(const Fields& f, SamplingParams& p) {
  const Json* v = f.find("seed");
  if (v == nullptr && p.seed) return {};  // the server's own
  if (v == nullptr) {
    // Drawn here, so that all choices of a call share it: choice i of a call is choice i of any other call with this seed.
    std::random_device entropy;
    p.seed = (uint64_t(entropy()) << 21 ^ entropy()) & ((uint64_t(1) << 53) - 1);  // exact in every JSON reader
    return {};
  }
  if (v->is_number_unsigned()) {
    p.seed = v->get<uint64_t>();
    return {};
  }
  if (v->is_number_float() && std::abs(v->get<double>()) >= 1e15 && !as_integer(*v)) {
    return bad_field("seed", fmt::format("seed must be between {} and {}, got {}", INT64_MIN, UINT64_MAX, shown(*v)));
  }
  ISO_TRY(const auto seed, f.integer("seed", INT64_MIN, INT64_MAX));
  p.seed = uint64_t(*seed);
  return {};
}

Result<void> parse_logit_bias(const Fields& f, int64_t vocab, SamplingParams& p) {
  ISO_TRY(const Json* object, f.object("logit_bias"));
  if (object == nullptr) return {};
  for (const auto& [key, value] : object->items()) {
    const std::string at = "logit_bias." + shortened(key, 20);
    int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= vocab) {
      return bad_field(at, fmt::format("key {} is no token id of this model (ids 0 to {})", shown(Json(key)), vocab - 1));
    }
    if (!value.is_number()) return bad_field(at, Fields::mismatch("a number", value));
    const double bias = value.get<double>();
    if (!(bias >= -100 && bias <= 100)) return bad_field(at, "a bias must be between -100 and 100, got " + shown(value));
    p.logit_bias.emplace_back(int32_t(id), float(bias));
  }
  return {};
}

Result<void> parse_numbers(const Fields& f, SamplingParams& p) {
  for (const FloatRow& r : kFloats) {
    const FieldRow& row = *field_row(r.name);
    ISO_TRY(const auto v, f.number(r.name, row.low, row.high, row.low_open));
    if (v) p.*r.field = float(*v);
    if (v && row.low_open && p.*r.field == 0) p.*r.field = std::numeric_limits<float>::min();  // underflowed on the way to float
  }
  for (const IntRow& r : kInts) {
    ISO_TRY(const auto v, f.integer(r.name, int64_t(field_row(r.name)->low), INT64_MAX));
    if (v) p.*r.field = int32_t(std::min<int64_t>(*v, INT32_MAX));
  }
  ISO_TRY(const auto min_tokens, f.integer("min_tokens", 0, INT64_MAX));
  p.min_tokens = min_tokens.value_or(0);
  ISO_TRY(const auto ignore_eos, f.boolean("ignore_eos"));
  p.ignore_eos = ignore_eos.value_or(false);
  return {};
}

Result<void> parse_token_lists(const Fields& f, Frontend& front, SamplingParams& p) {
  const int64_t last = front.vocab_size() - 1;
  ISO_CHECK_OK(parse_logit_bias(f, front.vocab_size(), p));
  ISO_TRY(p.stop_token_ids, f.ids("stop_token_ids", 0, last));
  ISO_TRY(p.allowed_token_ids, f.ids("allowed_token_ids", 0, last));
  if (f.has("allowed_token_ids") && p.allowed_token_ids.empty()) {
    return bad_field("allowed_token_ids", "the list is empty: no token would be allowed", "leave it out to allow all");
  }
  ISO_TRY(const auto bad_words, f.strings("bad_words", 1024, false));
  for (size_t i = 0; i < bad_words.size(); ++i) {
    if (bad_words[i].empty()) return bad_field(fmt::format("bad_words[{}]", i), "a bad word must not be empty");
    add_bad_word(front.tokenizer(), bad_words[i], p.bad_words);
  }
  ISO_TRY(auto breakers, f.strings("dry_sequence_breakers", 64, false));
  if (p.dry_multiplier > 0) {
    if (!f.has("dry_sequence_breakers")) breakers = {"\n", ":", "\"", "*"};
    p.dry_sequence_breakers = breaker_sequences(front.tokenizer(), breakers);
  }
  return {};
}

Result<void> parse_choices(const Fields& f, const CallLimits& limits, Call& call) {
  ISO_TRY(const auto n, f.integer("n", 1, limits.max_choices));
  ISO_TRY(const auto best_of, f.integer("best_of", 1, limits.max_choices));
  call.spec.n = int(n.value_or(1));
  call.spec.best_of = int(best_of.value_or(call.spec.n));
  if (call.spec.best_of < call.spec.n) {
    return bad_field("best_of", fmt::format("best_of must be at least n, got {} with n {}", call.spec.best_of, call.spec.n));
  }
  if (call.stream && call.spec.best_of > call.spec.n) {
    return bad_field("best_of", "the best choices are known only at the end, so best_of greater than n cannot be streamed",
                     "turn stream off, or lower best_of to n");
  }
  return {};
}

Result<void> parse_output(const Fields& f, const CallLimits& limits, Call& call) {
  OutputOptions& out = call.spec.output;
  ISO_TRY(out.stop, f.strings("stop", limits.max_stops, true));
  for (const std::string& s : out.stop) {
    if (s.empty()) return bad_field("stop", "a stop string must not be empty", "leave it out");
    if (s.size() > limits.max_stop_bytes) {
      return bad_field("stop", fmt::format("a stop string has {} bytes, at most {} are allowed", s.size(), limits.max_stop_bytes));
    }
  }
  ISO_TRY(const auto include_stop, f.boolean("include_stop_str_in_output"));
  out.include_stop = include_stop.value_or(false);
  ISO_TRY(const auto skip_special, f.boolean("skip_special_tokens"));
  out.skip_special = skip_special.value_or(true);
  ISO_TRY(const auto prompt_logprobs, f.integer("prompt_logprobs", 0, limits.max_logprobs));
  out.prompt_logprobs = int(prompt_logprobs.value_or(-1));
  if (out.prompt_logprobs >= 0 && call.stream) {
    return bad_field("prompt_logprobs", "prompt_logprobs cannot be streamed", "turn stream off");
  }
  return {};
}

Result<void> parse_stream_options(const Fields& f, Call& call) {
  ISO_TRY(const Json* object, f.object("stream_options"));
  if (object == nullptr) return {};
  if (!call.stream) return bad_field("stream_options", "stream_options is only allowed when stream is true", "leave it out");
  const Fields options(*object, "stream_options");
  ISO_TRY(const auto include, options.boolean("include_usage"));
  ISO_TRY(const auto continuous, options.boolean("continuous_usage_stats"));
  call.include_usage = include.value_or(false);
  call.continuous_usage = call.include_usage && continuous.value_or(false);
  return {};
}

Result<void> parse_labels(const Fields& f, Call& call) {
  ISO_TRY(const auto priority, f.integer("priority", INT32_MIN, INT32_MAX));
  call.spec.priority = int(priority.value_or(0));
  ISO_TRY(const auto deadline, f.integer("deadline_ms", 1, INT32_MAX));
  call.spec.deadline_ms = deadline.value_or(0);
  ISO_TRY(const auto user, f.string("user"));
  if (user && user->size() > 512) return bad_field("user", "user must have at most 512 bytes");
  if (user) call.spec.share_key = "user:" + *user;
  ISO_TRY(const auto rank, f.integer("data_parallel_rank", 0, INT32_MAX));
  call.spec.rank = int(rank.value_or(-1));
  ISO_TRY(const auto salt, f.string("cache_salt"));
  if (salt && (salt->empty() || salt->size() > 128)) return bad_field("cache_salt", "cache_salt must have 1 to 128 bytes");
  call.spec.cache_salt = salt.value_or("");
  ISO_TRY(const auto id, f.string("request_id"));
  if (id && (id->empty() || id->size() > 128)) return bad_field("request_id", "request_id must have 1 to 128 bytes");
  call.id = id.value_or("");
  return {};
}

}  // namespace

Result<void> refuse_unsupported(const Fields& f) {
  for (const Refusal& r : kRefused) {
    const Json* v = f.find(r.name);
    if (v == nullptr) continue;
    ISO_CHECK_OK(check_kind(r.name, *v, r.kinds));
    if (!asks_for_nothing(*v, r.empty)) return tl::unexpected(field_error(r.name, r.why, "leave it out", Code::unsupported));
  }
  return refuse_modalities(f);
}

Result<void> parse_common(const Fields& f, Frontend& front, const CallLimits& limits, Call& call) {
  ISO_CHECK_OK(check_fields(f, call.chat ? kInChat : kInCompletion));
  for (const BoolRow& r : kSwitches) {
    ISO_TRY(const auto v, f.boolean(r.name));
    if (v) call.*r.field = *v;
  }
  SamplingParams& p = call.spec.sampling;
  front.defaults().apply(p);
  ISO_CHECK_OK(refuse_unsupported(f));
  ISO_CHECK_OK(parse_numbers(f, p));
  ISO_CHECK_OK(parse_seed(f, p));
  ISO_CHECK_OK(parse_token_lists(f, front, p));
  ISO_CHECK_OK(parse_choices(f, limits, call));
  ISO_CHECK_OK(parse_output(f, limits, call));
  ISO_CHECK_OK(parse_stream_options(f, call));
  ISO_CHECK_OK(parse_labels(f, call));
  ISO_TRY(call.form, parse_structured(f));
  call.spec.output.stop_token_ids = p.stop_token_ids;
  call.spec.output.min_tokens = p.min_tokens;
  return {};
}

Result<std::optional<int64_t>> parse_max_tokens(const Fields& f) {
  ISO_TRY(const auto max_tokens, f.integer("max_tokens", 0, INT64_MAX));
  ISO_TRY(const auto max_completion, f.integer("max_completion_tokens", 0, INT64_MAX));
  return max_completion ? max_completion : max_tokens;
}

Api<void> fit_context(const Fields& f, const Frontend& front, const Call& call, std::optional<int64_t> max_tokens, const std::string& field,
                      Prompt& prompt) {
  const int64_t context = front.max_model_len();
  ISO_TRY(auto keep, f.integer("truncate_prompt_tokens", -1, context));
  ISO_TRY(const auto side, f.string("truncation_side"));
  if (side && *side != "left" && *side != "right") return bad_field("truncation_side", "expected \"left\" or \"right\", got " + shown(Json(*side)));
  if (keep && *keep == 0) return bad_field("truncate_prompt_tokens", "truncate_prompt_tokens must be -1 or at least 1, got 0");
  if (keep && *keep == -1) keep = std::max<int64_t>(1, context - std::max<int64_t>(1, max_tokens.value_or(1)));
  if (keep && int64_t(prompt.ids.size()) > *keep) {
    prompt.truncated = int64_t(prompt.ids.size()) - *keep;
    const auto cut = side.value_or("left") == "left" ? prompt.ids.begin() : prompt.ids.begin() + *keep;
    prompt.ids.erase(cut, cut + prompt.truncated);
    prompt.has_text = false;
  }

  const int64_t n = int64_t(prompt.ids.size());
  const int64_t least = max_tokens ? std::min<int64_t>(*max_tokens, 1) : 1;
  const bool prompt_too_long = n > context - least;
  if (prompt_too_long || (max_tokens && *max_tokens > context - n)) {
    std::string what = fmt::format("this model's maximum context length is {} tokens, but the prompt has {} tokens", context, n);
    if (!prompt_too_long) what += fmt::format(" and {} are asked for the output", *max_tokens);
    Json numbers = {{"n_prompt_tokens", n}, {"n_ctx", context}};
    return tl::unexpected(ApiError(field_error(prompt_too_long ? field : "max_tokens", std::move(what),
                                               prompt_too_long ? "shorten the prompt, or send truncate_prompt_tokens"
                                                               : "lower max_tokens, or leave it out to use what is left"),
                                   std::move(numbers)));
  }
  const int64_t unasked = front.defaults().max_tokens.value_or(call.chat ? context : 16);
  prompt.max_tokens = max_tokens.value_or(std::min(unasked, context - n));
  const int64_t min_tokens = call.spec.sampling.min_tokens;
  if (min_tokens > prompt.max_tokens) {
    return bad_field("min_tokens", fmt::format("min_tokens is {}, but at most {} tokens are generated", min_tokens, prompt.max_tokens),
                     "lower min_tokens or raise max_tokens");
  }
  return {};
}

}  // namespace isotope::serve
