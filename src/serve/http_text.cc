#include "serve/http_text.h"

#include <algorithm>
#include <charconv>

namespace isotope::serve {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : char(c); });
  return out;
}

bool split_target(std::string_view target, std::string& path, std::string& query) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t slash = target.find('/');
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  if (!target.starts_with('/')) return target == "*";
  const size_t mark = target.find('?');
  if (mark != std::string_view::npos) query = std::string(target.substr(mark + 1));
  target = target.substr(0, mark);
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path += target[i];
      continue;
    }
    unsigned value = 0;
    if (i + 2 >= target.size()) return false;
    const auto [end, error] = std::from_chars(target.data() + i + 1, target.data() + i + 3, value, 16);
    if (error != std::errc() || end != target.data() + i + 3) return false;
    path += char(value);
    i += 2;
  }
  return true;
}

std::string allowed_origin(const std::vector<std::string>& allowed, std::string_view origin) {
  for (const std::string& a : allowed) {
    if (a == "*") return a;
    if (!origin.empty() && a == origin) return a;
  }
  return {};
}

Headers preflight_headers(const HttpCall& call) {
  std::string wanted(call.header("access-control-request-headers"));
  if (wanted.empty()) wanted = "*";
  return {{"Access-Control-Allow-Methods", "GET, POST, DELETE, HEAD, OPTIONS"},
          {"Access-Control-Allow-Headers", wanted},
          {"Access-Control-Max-Age", "600"},
          {"Vary", "Origin"}};
}

}  // namespace isotope::serve
