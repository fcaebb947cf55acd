#include "text/jinja_str.h"

#include <algorithm>
#include <cstring>

#include "text/jinja_call.h"
#include "text/jinja_repr.h"
#include "text/jinja_unicode.h"

namespace isotope::text::jinja {
namespace {

// Collects transformed text and hands it on whenever its provenance changes.
class Runs {
 public:
  explicit Runs(Writer& w) : w_(w) {}
  ~Runs() = default;
  std::string& at(bool content) {
    if (content != content_ || run_.size() > 4096) flush(), content_ = content;
    return run_;
  }
  void flush() { w_.add(run_, content_), run_.clear(); }

 private:
  Writer& w_;
  std::string run_;
  bool content_ = false;
};

void convert(std::string& out, std::string_view whole, size_t pos, char32_t c, Casing how, bool& cased_before) {
  switch (how) {
    case Casing::lower: return append_lower(out, whole, pos, c);
    case Casing::upper: return append_upper(out, c);
    case Casing::fold: return append_fold(out, c);
    case Casing::capitalize: return pos == 0 ? append_title(out, c) : append_lower(out, whole, pos, c);
    case Casing::title:
      if (cased_before) append_lower(out, whole, pos, c);
      else append_title(out, c);
      cased_before = is_cased(c);
      return;
    case Casing::swap:
      if (is_upper(c)) append_lower(out, whole, pos, c);
      else if (is_lower(c)) append_upper(out, c);
      else append_point(out, c);
  }
}

bool in_set(std::string_view set, char32_t c) {
  for (size_t i = 0; i < set.size();)
    if (next_point(set, i) == c) return true;
  return false;
}

}  // namespace

Value change_case(Budget& b, const Str& s, Casing how) {
  b.charge(1 + s.text.size() / 32);
  Writer w(b);
  Runs runs(w);
  ContentCursor cursor(s);
  bool cased = false;
  for (size_t i = 0; i < s.text.size();) {
    const size_t at = i;
    const char32_t c = next_point(s.text, i);
    convert(runs.at(cursor.at(at)), s.text, at, c, how, cased);
  }
  runs.flush();
  return w.take(s.markup);
}

std::string lower_text(const Str& s) {
  std::string out;
  for (size_t i = 0; i < s.text.size();) {
    const size_t at = i;
    append_lower(out, s.text, at, next_point(s.text, i));
  }
  return out;
}

Value strip(Budget& b, const Str& s, const Value& chars, bool left, bool right) {
  const bool space = !given(chars) || chars.is(Kind::none);
  if (!space && !chars.is(Kind::string)) raise(Fault::type, "strip arg must be None or str");
  const std::string_view set = space ? std::string_view() : text(chars);
  const auto goes = [&](char32_t c) { return space ? is_space(c) : in_set(set, c); };
  size_t from = 0, to = s.text.size();
  while (left && from < to) {
    size_t p = from;
    if (!goes(next_point(s.text, p))) break;
    from = p;
  }
  while (right && to > from) {
    size_t p = to;
    if (!goes(prev_point(s.text, p))) break;
    to = p;
  }
  b.charge((s.text.size() - (to - from)) * (1 + set.size()) / 32);
  return substring(b, s, from, to);
}

size_t find_bytes(Budget& b, std::string_view hay, std::string_view needle, size_t from) {
  if (from > hay.size()) return kNone;
  if (needle.empty()) return from;
  const void* p = memmem(hay.data() + from, hay.size() - from, needle.data(), needle.size());
  const size_t at = p ? static_cast<size_t>(static_cast<const char*>(p) - hay.data()) : kNone;
  b.charge(((p ? at : hay.size()) - from) / 64);
  return at;
}

size_t rfind_bytes(Budget& b, std::string_view hay, std::string_view needle) {
  if (needle.size() > 1024) b.charge(hay.size() / 256 * needle.size());  // the worst case, before it happens
  const size_t at = hay.rfind(needle);
  b.charge(1 + (hay.size() - (at == kNone ? 0 : at)) / 64 * (1 + needle.size() / 16));
  return at;
}

Value replace(Budget& b, const Str& s, const Str& from, const Str& to, int64_t count) {
  Writer w(b);
  uint64_t left = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  size_t at = 0;
  if (from.text.empty()) {  // before every code point, and at the end
    for (size_t i = 0; left > 0; --left) {
      b.charge(1);
      w.add(to);
      if (i >= s.text.size()) { at = i; break; }
      const size_t start = i;
      next_point(s.text, i);
      w.add(s, start, i);
      at = i;
    }
  } else {
    for (; left > 0; --left) {
      const size_t hit = find_bytes(b, s.text, from.text, at);
      if (hit == kNone) break;
      b.charge(1);
      w.add(s, at, hit), w.add(to);
      at = hit + from.text.size();
    }
  }
  w.add(s, at, s.text.size());
  return w.take(s.markup);
}

Value pad(Budget& b, const Str& s, int64_t left, int64_t right, const Str* fill) {
  if (fill && fill->points != 1) raise(Fault::type, "The fill character must be exactly one character long");
  const size_t unit = fill ? fill->text.size() : 1;
  const auto l = static_cast<uint64_t>(std::max<int64_t>(left, 0)), r = static_cast<uint64_t>(std::max<int64_t>(right, 0));
  if (l > b.max_string || r > b.max_string) b.check_string(SIZE_MAX / 2);
  b.check_string(s.text.size() + (l + r) * unit);
  Writer w(b);
  const auto add = [&](uint64_t n) {
    std::string out;
    for (uint64_t i = 0; i < n; ++i) out += fill ? std::string_view(fill->text) : std::string_view(" ");
    w.add(out, fill && !fill->content.empty());
  };
  add(l), w.add(s), add(r);
  return w.take(s.markup);
}

Value center(Budget& b, const Str& s, int64_t width, const Str* fill) {
  const int64_t room = width > static_cast<int64_t>(s.points) ? width - static_cast<int64_t>(s.points) : 0;
  const int64_t left = room / 2 + (room & width & 1);
  return pad(b, s, left, room - left, fill);
}

Value join(Budget& b, const Str& separator, const std::vector<Value>& items) {
  Writer w(b);
  for (size_t i = 0; i < items.size(); ++i) {
    b.charge(1);
    if (i) w.add(separator);
    if (separator.markup) {
      w.add(str(escape_html(b, items[i])));
      continue;
    }
    if (!items[i].is(Kind::string))
      raise(Fault::type, "sequence item " + std::to_string(i) + ": expected str instance, " + type_name(items[i]) + " found");
    w.add(str(items[i]));
  }
  return w.take(separator.markup);
}

std::vector<Value> split_lines(Budget& b, const Str& s, bool keep_ends) {
  std::vector<Value> out;
  size_t start = 0;
  for (size_t i = 0; i < s.text.size();) {
    const size_t at = i;
    const char32_t c = next_point(s.text, i);
    if (!is_line_break(c)) continue;
    if (c == '\r' && i < s.text.size() && s.text[i] == '\n') ++i;
    out.push_back(substring(b, s, start, keep_ends ? i : at));
    start = i;
  }
  if (start < s.text.size()) out.push_back(substring(b, s, start, s.text.size()));
  b.charge(s.text.size() / 32);
  return out;
}

namespace {

std::vector<Value> split_space(Budget& b, const Str& s, int64_t max) {
  std::vector<Value> out;
  const std::string_view t = s.text;
  size_t i = 0;
  const auto skip = [&](bool space) {
    while (i < t.size()) {
      size_t p = i;
      if (is_space(next_point(t, p)) != space) break;
      i = p;
    }
  };
  for (int64_t left = max < 0 ? INT64_MAX : max;; --left) {
    skip(true);
    if (i >= t.size()) break;
    const size_t start = i;
    if (left == 0) {
      out.push_back(substring(b, s, start, t.size()));
      break;
    }
    skip(false);
    out.push_back(substring(b, s, start, i));
  }
  b.charge(t.size() / 32);
  return out;
}

std::vector<Value> rsplit_space(Budget& b, const Str& s, int64_t max) {
  std::vector<Value> out;
  const std::string_view t = s.text;
  size_t i = t.size();
  const auto skip = [&](bool space) {
    while (i > 0) {
      size_t p = i;
      if (is_space(prev_point(t, p)) != space) break;
      i = p;
    }
  };
  for (int64_t left = max < 0 ? INT64_MAX : max;; --left) {
    skip(true);
    if (i == 0) break;
    const size_t end = i;
    if (left == 0) {
      out.push_back(substring(b, s, 0, end));
      break;
    }
    skip(false);
    out.push_back(substring(b, s, i, end));
  }
  std::reverse(out.begin(), out.end());
  b.charge(t.size() / 32);
  return out;
}

std::string_view separator_text(const Value& v) {
  if (!v.is(Kind::string)) raise(Fault::type, std::string("must be str or None, not ") + type_name(v));
  if (text(v).empty()) raise(Fault::value, "empty separator");
  return text(v);
}

}  // namespace

std::vector<Value> split(Budget& b, const Str& s, const Value& separator, int64_t max) {
  if (!given(separator) || separator.is(Kind::none)) return split_space(b, s, max);
  const std::string_view sep = separator_text(separator);
  std::vector<Value> out;
  size_t at = 0;
  for (int64_t left = max < 0 ? INT64_MAX : max; left > 0; --left) {
    const size_t hit = find_bytes(b, s.text, sep, at);
    if (hit == kNone) break;
    out.push_back(substring(b, s, at, hit));
    at = hit + sep.size();
  }
  out.push_back(substring(b, s, at, s.text.size()));
  return out;
}

std::vector<Value> rsplit(Budget& b, const Str& s, const Value& separator, int64_t max) {
  if (!given(separator) || separator.is(Kind::none)) return rsplit_space(b, s, max);
  const std::string_view sep = separator_text(separator);
  std::vector<Value> out;
  size_t end = s.text.size();
  for (int64_t left = max < 0 ? INT64_MAX : max; left > 0; --left) {
    const size_t hit = rfind_bytes(b, std::string_view(s.text).substr(0, end), sep);
    if (hit == kNone) break;
    out.push_back(substring(b, s, hit + sep.size(), end));
    end = hit;
  }
  out.push_back(substring(b, s, 0, end));
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace isotope::text::jinja
