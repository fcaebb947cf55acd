// FunctionGemma: values of text stand between <escape> marks, others are written as in JSON, keys are bare.
//   <start_function_call>call:get_weather{city:<escape>Paris<escape>,days:3}<end_function_call>
#include "serve/tools/formats.h"

namespace isotope::serve {
namespace {

constexpr std::string_view kOpen[] = {"<start_function_call>"};
constexpr std::string_view kEnd[] = {"<end_function_call>"};
constexpr std::string_view kEscape = "<escape>";

// The object behind the name; recursive values are bounded by kMaxCallDepth.
class Values {
 public:
  explicit Values(std::string_view s) : rest_(s) {}

  bool eat(std::string_view word) {
    const size_t n = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(n == std::string_view::npos ? rest_.size() : n);
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool empty() const { return rest_.find_first_not_of(" \t\r\n") == std::string_view::npos; }

  std::optional<std::string> object(size_t depth) {
    if (!eat("{")) return std::nullopt;
    Arguments out;
    for (bool first = true; !eat("}"); first = false) {
      if (!first && !eat(",")) return std::nullopt;
      auto key = eat(kEscape) ? escaped() : upto(":");
      if (!key || key->empty() || !eat(":")) return std::nullopt;
      auto v = value(depth + 1);
      if (!v) return std::nullopt;
      out.set(*std::move(key), *std::move(v));
    }
    return out.text();
  }

 private:
  std::optional<std::string> upto(std::string_view ends) {
    const size_t n = rest_.find_first_of(ends);
    if (n == std::string_view::npos) return std::nullopt;
    std::string out(rest_.substr(0, n));
    rest_.remove_prefix(n);
    out.erase(out.find_last_not_of(" \t\r\n") + 1);
    return out;
  }
  std::optional<std::string> escaped() {
    const size_t n = rest_.find(kEscape);
    if (n == std::string_view::npos) return std::nullopt;
    std::string out(rest_.substr(0, n));
    rest_.remove_prefix(n + kEscape.size());
    return out;
  }
  std::optional<std::string> list(size_t depth) {
    std::string out = "[";
    while (!eat("]")) {
      if (out.size() > 1 && !eat(",")) return std::nullopt;
      const auto v = value(depth + 1);
      if (!v) return std::nullopt;
      out += (out.size() > 1 ? ", " : "") + *v;
    }
    return out + "]";
  }
  std::optional<std::string> value(size_t depth) {
    if (depth > kMaxCallDepth) return std::nullopt;
    if (eat(kEscape)) {
      const auto text = escaped();
      return text ? std::optional(json_quote(*text)) : std::nullopt;
    }
    if (rest_.starts_with('{')) return object(depth);
    if (eat("[")) return list(depth);
    auto word = upto(",}]");
    return word && is_json(*word) ? word : std::nullopt;
  }

  std::string_view rest_;
};

}  // namespace

Script read_functiongemma(Reader& in, const Toolbox&) {
  while (co_await in.seek(kOpen) >= 0) {
    co_await in.spaces();
    if (!co_await in.literal("call:")) continue;
    ToolCall call;
    call.name = co_await in.name();
    if (call.name.empty()) continue;
    const auto body = co_await in.until(kEnd);
    Values values(body.text);
    auto arguments = values.object(0);
    if (!arguments || !values.empty()) continue;
    call.arguments = *std::move(arguments);
    in.call(std::move(call));
  }
}

}  // namespace isotope::serve
