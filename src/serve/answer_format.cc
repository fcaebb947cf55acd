#include "serve/answer_format.h"

#include <algorithm>

#include "serve/token_names.h"

namespace isotope::serve {
namespace {

// Two tokens may share a spelling; the likelier one keeps it.
void put(Json& map, const std::string& key, float logprob) {
  if (!map.contains(key)) map[key] = std::max(logprob, kLogprobFloor);
}

Json completion_logprobs(const Call& call, const Frontend& front, const Delta& d) {
  Json tokens = Json::array(), values = Json::array(), tops = Json::array(), offsets = Json::array();
  int64_t offset = d.text_offset;
  for (const Entry& e : d.entries) {
    const std::string name = call.tokens_as_ids ? id_name(e.token) : e.text;
    tokens.push_back(name);
    offsets.push_back(offset);
    offset += code_points(e.text);
    if (!e.known) {
      values.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    values.push_back(std::max(e.logprob, kLogprobFloor));
    Json map = Json::object();
    const std::string own = name.empty() ? token_name(front.tokenizer(), e.token) : name;
    for (const TokenLogprob& t : e.top) {
      put(map, t.token == e.token ? own : call.tokens_as_ids ? id_name(t.token) : token_name(front.tokenizer(), t.token), t.logprob);
    }
    put(map, own, e.logprob);
    tops.push_back(std::move(map));
  }
  return {{"text_offset", std::move(offsets)}, {"token_logprobs", std::move(values)}, {"tokens", std::move(tokens)}, {"top_logprobs", std::move(tops)}};
}

Json chat_logprob(const Call& call, const Frontend& front, int32_t token, const std::string& text, float logprob) {
  Json bytes = Json::array();
  for (const char c : front.tokenizer().token_bytes(token)) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", call.tokens_as_ids ? id_name(token) : text}, {"logprob", std::max(logprob, kLogprobFloor)}, {"bytes", std::move(bytes)}};
}

Json chat_entries(const Call& call, const Frontend& front, const std::vector<Entry>& entries) {
  Json content = Json::array();
  for (const Entry& e : entries) {
    Json item = chat_logprob(call, front, e.token, e.text, e.logprob);
    Json top = Json::array();
    for (const TokenLogprob& t : e.top) {
      top.push_back(chat_logprob(call, front, t.token, t.token == e.token ? e.text : token_name(front.tokenizer(), t.token), t.logprob));
    }
    item["top_logprobs"] = std::move(top);
    content.push_back(std::move(item));
  }
  return content;
}

Json chat_logprobs(const Call& call, const Frontend& front, const Delta& d) { return {{"content", chat_entries(call, front, d.entries)}}; }

Json logprobs_json(const Call& call, const Frontend& front, const Delta& d) {
  if (call.spec.output.logprobs < 0) return nullptr;
  return call.chat ? chat_logprobs(call, front, d) : completion_logprobs(call, front, d);
}

Json stop_reason(const Choice& c) {
  if (c.stop_text() != nullptr) return *c.stop_text();
  if (c.stop_token_asked()) return c.stop_token();
  return nullptr;
}

const char* finish_of(const Delta& d) {
  return d.called && d.finished->finish() == FinishReason::stop ? "tool_calls" : finish_name(d.finished->finish());
}

// vLLM's name and ATOM's; clients read one of them.
void add_reasoning(const Delta& d, Json& message) {
  if (d.reasoning.empty()) return;
  message["reasoning"] = d.reasoning;
  message["reasoning_content"] = d.reasoning;
}

void add_common(const Call& call, const Frontend& front, const Delta& d, Json& choice) {
  choice["logprobs"] = logprobs_json(call, front, d);
  choice["finish_reason"] = d.finished != nullptr ? Json(finish_of(d)) : Json(nullptr);
  if (d.finished != nullptr) choice["stop_reason"] = stop_reason(*d.finished);
  if (!call.return_token_ids) return;
  choice["token_ids"] = d.ids;
  if (d.prompt_ids != nullptr && !call.chat) choice["prompt_token_ids"] = *d.prompt_ids;
}

}  // namespace

Json cache_reason_json(const RequestStats& s) {
  static constexpr const char* kCauses[] = {"none", "cold", "token", "salt", "lora", "evicted", "block_edge", "window", "no_checkpoint"};
  if (s.cache_reason == CacheReason::none) return nullptr;
  return {{"cause", kCauses[size_t(s.cache_reason)]}, {"position", s.cache_position}};
}

int64_t code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

const char* finish_name(FinishReason r) {
  switch (r) {
    case FinishReason::stop: return "stop";
    case FinishReason::length: return "length";
    case FinishReason::abort: return "abort";
    default: return "error";
  }
}

Json envelope(const Call& call, const Frontend& front, bool chunk) {
  const char* object = !call.chat ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion";
  return {{"id", call.id},
          {"object", object},
          {"created", call.created},
          {"model", call.model},
          {"system_fingerprint", front.engine().info().fingerprint},
          {"choices", Json::array()}};
}

Json choice_json(const Call& call, const Frontend& front, const Delta& d) {
  Json choice = {{"index", d.index}};
  if (call.chat) {
    const bool silent = d.text.empty() && (!d.reasoning.empty() || !d.tool_calls.empty());
    Json message = {{"role", call.role}, {"content", silent ? Json() : Json(d.text)}, {"refusal", nullptr}, {"tool_calls", d.tool_calls}};
    add_reasoning(d, message);
    choice["message"] = std::move(message);
  } else {
    choice["text"] = d.text;
  }
  add_common(call, front, d, choice);
  return choice;
}

Json chunk_choice_json(const Call& call, const Frontend& front, const Delta& d) {
  Json choice = {{"index", d.index}};
  if (call.chat) {
    Json delta = Json::object();
    if (d.first) delta["role"] = call.role;
    if (d.first || !d.text.empty()) delta["content"] = d.text;
    add_reasoning(d, delta);
    if (!d.tool_calls.empty()) delta["tool_calls"] = d.tool_calls;
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = d.text;
  }
  add_common(call, front, d, choice);
  return choice;
}

Json chat_logprobs_json(const Call& call, const Frontend& front, const std::vector<Entry>& entries) { return chat_entries(call, front, entries); }

Json usage_json(const Usage& u) {
  Json details = {{"cached_tokens", u.cached_tokens}};
  if (u.truncated_tokens > 0) details["truncated_tokens"] = u.truncated_tokens;
  return {{"prompt_tokens", u.prompt_tokens},
          {"total_tokens", u.prompt_tokens + u.completion_tokens},
          {"completion_tokens", u.completion_tokens},
          {"prompt_tokens_details", std::move(details)}};
}

Json prompt_logprobs_json(const Frontend& front, const Choice& choice) {
  Json out = Json::array();
  for (const auto& list : choice.prompt_logprobs()) {
    if (list.empty()) {
      out.push_back(nullptr);
      continue;
    }
    Json map = Json::object();
    for (const TokenLogprob& t : list) {
      const std::string key = std::to_string(t.token);
      if (map.contains(key)) continue;
      map[key] = {{"logprob", std::max(t.logprob, kLogprobFloor)}, {"rank", t.rank}, {"decoded_token", token_name(front.tokenizer(), t.token)}};
    }
    out.push_back(std::move(map));
  }
  return out;
}

Json timings_json(const Job& job) {
  Json out = {{"seed", job.spec().sampling.seed.value_or(0)}};
  Json each = Json::array();
  for (size_t child = 0; child < job.choice_count(); ++child) {
    const auto s = job.stats(int(child));
    if (!s) continue;
    const auto per_second = [](int64_t n, double t) { return t > 0 ? double(n) / t : 0.0; };
    const int64_t computed = std::max<int64_t>(0, s->prompt_tokens - s->cached_tokens);
    each.push_back({{"prompt_n", s->prompt_tokens},
                    {"cache_n", s->cached_tokens},
                    {"cache_reason", cache_reason_json(*s)},
                    {"prompt_ms", s->prefill_s * 1e3},
                    {"prompt_per_second", per_second(computed, s->prefill_s)},
                    {"predicted_n", s->output_tokens},
                    {"predicted_ms", s->decode_s * 1e3},
                    {"predicted_per_second", per_second(s->output_tokens, s->decode_s)},
                    {"queue_ms", s->queue_s * 1e3},
                    {"ttft_ms", s->ttft_s * 1e3},
                    {"chunks", s->chunks},
                    {"preemptions", s->preemptions}});
  }
  if (each.size() == 1) {
    out.update(each[0]);
  } else {
    out["sequences"] = std::move(each);
  }
  return out;
}

}  // namespace isotope::serve
