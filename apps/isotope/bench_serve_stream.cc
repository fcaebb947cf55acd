#include "bench_serve_stream.h"

#include "serve/json_body.h"

namespace isotope::app {
namespace {

using serve::Json;

const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

void take_count(const Json& object, const char* name, std::optional<int64_t>& out) {
  if (const Json* v = member(object, name); v != nullptr && v->is_number()) out = v->get<int64_t>();
}

std::string message_of(const Json& body) {
  for (const char* name : {"error", "detail", "message"}) {
    const Json* v = member(body, name);
    if (v == nullptr) continue;
    if (v->is_string()) return v->get<std::string>();
    if (const Json* m = member(*v, "message"); m != nullptr && m->is_string()) return m->get<std::string>();
    return serve::shown(*v);
  }
  return {};
}

/// What a chat adds to its answer: text, reasoning, arguments of calls. The first event only names the role.
void take_delta(const Json& delta, Chunk& c) {
  for (const char* name : {"content", "reasoning"})
    if (const Json* t = member(delta, name); t != nullptr && t->is_string()) c.text += t->get<std::string>();
  const Json* calls = member(delta, "tool_calls");
  c.choice = !c.text.empty() || calls != nullptr || member(delta, "role") == nullptr;
}

}  // namespace

void EventSplitter::feed(std::string_view bytes, const std::function<void(std::string_view)>& take) {
  for (size_t end; (end = bytes.find('\n')) != std::string_view::npos; bytes.remove_prefix(end + 1)) {
    line_ += bytes.substr(0, end);
    if (line_.ends_with('\r')) line_.pop_back();
    end_line(take);
    line_.clear();
  }
  line_ += bytes;
}

void EventSplitter::end_line(const std::function<void(std::string_view)>& take) {
  constexpr std::string_view kData = "data:";
  if (line_.empty()) {
    if (has_data_) take(data_);
    has_data_ = false;
    data_.clear();
  } else if (line_.starts_with(kData)) {
    std::string_view value = std::string_view(line_).substr(kData.size());
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
}

Chunk read_chunk(std::string_view data) {
  Chunk c;
  c.done = data == "[DONE]";
  if (c.done) return c;
  const auto json = serve::parse_json(data);
  if (!json || !json->is_object()) {
    c.error = "an event is no JSON object: '" + serve::shortened(data) + "'";
    return c;
  }
  if (const Json* choices = member(*json, "choices"); choices != nullptr && choices->is_array() && !choices->empty()) {
    const Json& first = choices->front();
    c.choice = true;
    if (const Json* t = member(first, "text"); t != nullptr && t->is_string()) c.text = t->get<std::string>();
    if (const Json* delta = member(first, "delta")) take_delta(*delta, c);
    c.finished = member(first, "finish_reason") != nullptr;
  } else if (c.error = message_of(*json); !c.error.empty()) {
    return c;
  }
  if (const Json* f = member(*json, "system_fingerprint"); f != nullptr && f->is_string()) c.fingerprint = f->get<std::string>();
  if (const Json* t = member(*json, "timings")) take_count(*t, "predicted_n", c.completion_tokens);
  if (const Json* u = member(*json, "usage")) {
    take_count(*u, "prompt_tokens", c.prompt_tokens);
    take_count(*u, "completion_tokens", c.completion_tokens);
  }
  return c;
}

std::string error_message(std::string_view body) {
  const auto json = serve::parse_json(body);
  const std::string message = json ? message_of(*json) : std::string();
  return message.empty() ? serve::shortened(body, 200) : message;
}

}  // namespace isotope::app
