#include "serve/cache_fields.h"

#include <algorithm>
#include <charconv>

namespace isotope::serve {

namespace {

constexpr double kLongest = 24 * 3600;

/// Seconds that a mark asks for.
Result<double> parse_mark(const Json& mark, const std::string& path) {
  ISO_TRY(const Fields f, Fields::of(mark, path));
  ISO_TRY(const auto type, f.string("type"));
  if (type.value_or("ephemeral") != "ephemeral")
    return bad_field(f.path("type"), "cache_control of type " + shown(Json(*type)) + " is unknown", "send \"ephemeral\"");
  ISO_TRY(const auto ttl, f.string("ttl"));
  return parse_ttl(ttl.value_or("5m"), f.path("ttl"));
}

struct Mark {
  size_t message = 0;  ///< the last one that is marked
  double seconds = 0;  ///< 0 = none is
};

Result<void> take_mark(const Json& object, const std::string& path, size_t message, Mark& out) {
  if (!object.is_object()) return {};
  const auto it = object.find("cache_control");
  if (it == object.end() || it->is_null()) return {};
  ISO_TRY(const double seconds, parse_mark(*it, path + ".cache_control"));
  out = {message, std::max(seconds, out.seconds)};
  return {};
}

Result<Mark> last_mark(const Json& messages) {
  Mark mark;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string at = "messages[" + std::to_string(i) + "]";
    ISO_CHECK_OK(take_mark(messages[i], at, i, mark));
    const auto content = messages[i].is_object() ? messages[i].find("content") : messages[i].end();
    if (!messages[i].is_object() || content == messages[i].end() || !content->is_array()) continue;
    for (size_t p = 0; p < content->size(); ++p)
      ISO_CHECK_OK(take_mark((*content)[p], at + ".content[" + std::to_string(p) + "]", i, mark));
  }
  return mark;
}

/// How many of the prompt's tokens stand before message `count`: those that it shares with the prompt of the messages before. When
/// a template cannot render these alone, none.
int64_t tokens_before(const Frontend& front, ChatInput input, size_t count, const std::vector<int32_t>& ids) {
  if (count >= input.messages.size()) return int64_t(ids.size());
  if (count == 0) return 0;
  input.messages.erase(input.messages.begin() + int64_t(count), input.messages.end());
  input.add_generation_prompt = input.continue_final_message = false;
  const auto head = front.chat_ids(input);
  if (!head) return 0;
  return std::mismatch(head->begin(), head->end(), ids.begin(), ids.end()).first - head->begin();
}

}  // namespace

Result<double> parse_ttl(const std::string& text, const std::string& path) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const std::string_view unit(end, size_t(text.data() + text.size() - end));
  const double scale = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (error != std::errc() || scale == 0 || n < 1 || double(n) * scale > kLongest)
    return bad_field(path, "'" + shortened(text) + "' is no time to live", "write a number with s, m or h, like \"5m\", at most 24h");
  return double(n) * scale;
}

Result<void> parse_cache_fields(const Fields& f, Call& call) {
  if (f.has("cache_salt_from_message") && !call.chat)
    return bad_field("cache_salt_from_message", "a completion has no messages", "leave it out: the salt then counts from the first token");
  const Json* mark = f.find("cache_control");
  if (mark == nullptr) return {};
  ISO_TRY(call.spec.pin_s, parse_mark(*mark, "cache_control"));
  for (Prompt& p : call.spec.prompts) p.pin_tokens = int64_t(p.ids.size());
  return {};
}

Result<void> parse_chat_cache_fields(const Fields& f, const Frontend& front, const ChatInput& input, Call& call) {
  ISO_CHECK_OK(parse_cache_fields(f, call));
  Prompt& prompt = call.spec.prompts[0];
  ISO_TRY(const auto from, f.integer("cache_salt_from_message", 0, INT32_MAX));
  if (from && call.spec.cache_salt.empty())
    return bad_field("cache_salt_from_message", "there is no salt to begin at a message", "send cache_salt too");
  if (from) prompt.salt_from = tokens_before(front, input, size_t(*from), prompt.ids);
  ISO_TRY(const Mark mark, last_mark(input.messages));
  if (mark.seconds == 0) return {};
  call.spec.pin_s = std::max(call.spec.pin_s, mark.seconds);
  prompt.pin_tokens = std::max(prompt.pin_tokens, tokens_before(front, input, mark.message + 1, prompt.ids));
  return {};
}

}  // namespace isotope::serve
