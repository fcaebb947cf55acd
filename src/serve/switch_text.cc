// Two small readers of text for the switch.
#include <map>
#include <set>

#include "serve/switch.h"

namespace isotope::serve {
namespace {

/// The index behind the closing quote of the string that begins at `at`.
size_t end_of_string(std::string_view s, size_t at) {
  for (++at; at < s.size() && s[at] != '"'; ++at) at += s[at] == '\\';
  return std::min(at + 1, s.size());
}

size_t skip_space(std::string_view s, size_t at) {
  while (at < s.size() && (s[at] == ' ' || s[at] == '\t' || s[at] == '\n' || s[at] == '\r')) ++at;
  return at;
}

}  // namespace

std::optional<std::string> top_level_string(std::string_view s, std::string_view name) {
  std::optional<std::string> found;
  int depth = 0;
  for (size_t at = 0; at < s.size();) {
    const char c = s[at];
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c != '"') { ++at; continue; }
    const size_t key = at;
    at = end_of_string(s, at);
    if (depth != 1 || s.substr(key + 1, at - key - 2) != name) continue;
    size_t value = skip_space(s, at);
    if (value >= s.size() || s[value] != ':') continue;
    value = skip_space(s, value + 1);
    found.reset();
    if (value >= s.size() || s[value] != '"') continue;
    at = end_of_string(s, value);
    if (auto text = parse_json(s.substr(value, at - value)); text && text->is_string()) found = text->get<std::string>();
  }
  return found;
}

std::string joined_metrics(const std::vector<std::string>& texts) {
  struct Family {
    std::string head, series;
  };
  std::vector<std::string> order;
  std::map<std::string, Family> families;
  std::set<std::string> seen;
  for (const std::string& text : texts) {
    std::string current;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string line = text.substr(at, end - at);
      at = end + 1;
      if (line.empty()) continue;
      if (line.starts_with("# ")) {
        const size_t name = line.find(' ', 2) + 1;
        current = line.substr(name, line.find(' ', name) - name);
        if (!families.contains(current)) order.push_back(current);
        Family& f = families[current];
        if (seen.insert("#" + line.substr(2, name - 2) + current).second) f.head += line + "\n";
      } else if (seen.insert(line.substr(0, line.rfind(' '))).second) {
        families[current].series += line + "\n";
      }
    }
  }
  std::string out;
  for (const std::string& name : order) out += families[name].head + families[name].series;
  return out;
}

}  // namespace isotope::serve
