#include "serve/tools/json_scan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace isotope::serve {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr size_t kMaxAtom = 512;

bool is_space(char c) { return kSpace.find(c) != std::string_view::npos; }
bool is_atom(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '-' || c == '+' || c == '.'; }

std::string_view trim(std::string_view s) {
  const size_t at = s.find_first_not_of(kSpace);
  if (at == std::string_view::npos) return {};
  return s.substr(at, s.find_last_not_of(kSpace) - at + 1);
}

// One past the value at `at` of a valid text.
size_t value_end(std::string_view s, size_t at) {
  size_t depth = 0;
  for (bool string = false; at < s.size(); ++at) {
    const char c = s[at];
    if (string) {
      if (c == '\\') {
        ++at;
      } else if (c == '"') {
        string = false;
        if (depth == 0) return at + 1;
      }
      continue;
    }
    if (c == '"') {
      string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return at;
      if (--depth == 0) return at + 1;
    } else if (depth == 0 && (c == ',' || is_space(c))) {
      return at;
    }
  }
  return s.size();
}

size_t skip(std::string_view s, size_t at) {
  while (at < s.size() && (is_space(s[at]) || s[at] == ',' || s[at] == ':')) ++at;
  return at;
}

}  // namespace

Scan JsonScanner::open(char c) {
  if (open_.size() >= kMaxCallDepth) return Scan::broken;
  open_ += c;
  want_ = c == '{' ? Want::key_or_close : Want::value_or_close;
  return Scan::more;
}

Scan JsonScanner::close(char c) {
  if (open_.empty() || open_.back() != (c == '}' ? '{' : '[')) return Scan::broken;
  const bool empty = want_ == (c == '}' ? Want::key_or_close : Want::value_or_close);
  if (want_ != Want::next && !empty) return Scan::broken;
  open_.pop_back();
  want_ = Want::next;
  return open_.empty() ? Scan::done : Scan::more;
}

bool JsonScanner::end_atom() {
  const bool ok = nlohmann::json::accept(atom_);
  atom_.clear();
  want_ = Want::next;
  return ok;
}

Scan JsonScanner::push(char c) {
  if (string_) {
    if (static_cast<unsigned char>(c) < 0x20) return Scan::broken;
    if (escape_) {
      escape_ = false;
      return std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos ? Scan::broken : Scan::more;
    }
    escape_ = c == '\\';
    string_ = c != '"';
    return Scan::more;
  }
  if (want_ == Want::start) return c == '{' || c == '[' ? open(c) : Scan::broken;
  if (!atom_.empty()) {
    if (is_atom(c)) {
      atom_ += c;
      return atom_.size() > kMaxAtom ? Scan::broken : Scan::more;
    }
    if (!end_atom()) return Scan::broken;
  }
  return outside(c);
}

Scan JsonScanner::outside(char c) {
  if (is_space(c)) return Scan::more;
  if (c == '}' || c == ']') return close(c);
  const bool value = want_ == Want::value || want_ == Want::value_or_close;
  if (c == '"' && value) {
    string_ = true;
    want_ = Want::next;
  } else if (c == '"' && (want_ == Want::key || want_ == Want::key_or_close)) {
    string_ = true;
    want_ = Want::colon;
  } else if ((c == '{' || c == '[') && value) {
    return open(c);
  } else if (c == ':' && want_ == Want::colon) {
    want_ = Want::value;
  } else if (c == ',' && want_ == Want::next) {
    want_ = open_.back() == '{' ? Want::key : Want::value;
  } else if (is_atom(c) && value) {
    atom_ += c;
  } else {
    return Scan::broken;
  }
  return Scan::more;
}

bool is_json(std::string_view text) {
  text = trim(text);
  if (text.empty()) return false;
  if (text[0] == '{' || text[0] == '[') {
    JsonScanner scan;
    for (size_t i = 0; i < text.size(); ++i) {
      const Scan s = scan.push(text[i]);
      if (s == Scan::broken || (s == Scan::done) != (i + 1 == text.size())) return false;
    }
  }
  return nlohmann::json::accept(text);
}

bool is_json_object(std::string_view text) {
  text = trim(text);
  return text.starts_with('{') && is_json(text);
}

Members object_members(std::string_view object) {
  Members out;
  for (size_t at = skip(object, object.find('{') + 1); at < object.size() && object[at] == '"'; at = skip(object, at)) {
    const size_t key_end = value_end(object, at);
    std::string key = json_string(object.substr(at, key_end - at)).value_or("");
    const size_t begin = skip(object, key_end);
    at = value_end(object, begin);
    const std::string_view value = object.substr(begin, at - begin);
    const auto same = std::find_if(out.begin(), out.end(), [&](const auto& m) { return m.first == key; });
    if (same != out.end()) {
      same->second = value;
    } else {
      out.emplace_back(std::move(key), value);
    }
  }
  return out;
}

std::vector<std::string_view> array_items(std::string_view array) {
  std::vector<std::string_view> out;
  for (size_t at = skip(array, array.find('[') + 1); at < array.size() && array[at] != ']'; at = skip(array, at)) {
    const size_t end = value_end(array, at);
    out.push_back(array.substr(at, end - at));
    at = end;
  }
  return out;
}

std::optional<std::string> json_string(std::string_view value) {
  if (!value.starts_with('"')) return std::nullopt;
  const auto parsed = nlohmann::json::parse(value, nullptr, false);
  if (!parsed.is_string()) return std::nullopt;
  return parsed.get<std::string>();
}

std::string json_quote(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace isotope::serve
