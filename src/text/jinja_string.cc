// Strings with provenance.
#include <algorithm>
#include <utility>

#include "text/jinja_unicode.h"
#include "text/jinja_value.h"

namespace isotope::text::jinja {

size_t Str::offset(size_t point) const {
  if (point >= points) return text.size();
  if (ascii()) return point;
  size_t i = 0;
  for (size_t seen = 0;; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80 && seen++ == point) return i;
}

Value make_literal(std::string s) {
  auto o = std::make_shared<Str>();
  o->points = count_points(s);
  o->text = std::move(s);
  return {Kind::string, std::move(o)};
}

namespace {

Value own_string(Budget& b, std::string s, size_t points, std::vector<Span> content, bool markup) {
  b.check_string(s.size());
  b.charge(1 + s.size() / 1024);
  auto o = std::make_shared<Str>();
  o->text = std::move(s);
  o->content = std::move(content);
  o->points = points;
  o->markup = markup;
  o->owner = &b;
  b.live += o->text.size();
  return {Kind::string, std::move(o)};
}

}  // namespace

Value make_string(Budget& b, std::string s, bool content, bool markup) {
  std::vector<Span> spans;
  if (content && !s.empty()) spans.push_back({0, static_cast<uint32_t>(s.size())});
  const size_t points = count_points(s);
  return own_string(b, std::move(s), points, std::move(spans), markup);
}

bool is_content(const Value& v) { return v.is(Kind::string) && !str(v).content.empty(); }

void Writer::mark(size_t begin, size_t end) {
  if (!content_.empty() && content_.back().end == begin) content_.back().end = static_cast<uint32_t>(end);
  else content_.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
}

void Writer::add(std::string_view s, bool content) {
  if (s.empty()) return;
  b_.check_string(s_.size() + s.size());
  if (content) mark(s_.size(), s_.size() + s.size());
  s_ += s;
  points_ += count_points(s);
}

void Writer::add(const Str& s, size_t from, size_t to) {
  if (from >= to) return;
  b_.check_string(s_.size() + (to - from));
  const size_t base = s_.size();
  s_.append(s.text, from, to - from);
  points_ += s.ascii()                          ? to - from
             : from == 0 && to == s.text.size() ? s.points
                                                : count_points(std::string_view(s.text).substr(from, to - from));
  auto i = std::lower_bound(s.content.begin(), s.content.end(), from, [](const Span& c, size_t p) { return c.end <= p; });
  for (; i != s.content.end() && i->begin < to; ++i)
    mark(base + std::max<size_t>(i->begin, from) - from, base + std::min<size_t>(i->end, to) - from);
}

void Writer::add_point(char32_t c, bool content) {
  std::string s;
  append_point(s, c);
  add(s, content);
}

Value Writer::take(bool markup) {
  Value v = own_string(b_, std::move(s_), std::exchange(points_, 0), std::move(content_), markup);
  s_.clear(), content_.clear();
  return v;
}

Value substring(Budget& b, const Str& s, size_t from, size_t to) {
  Writer w(b);
  w.add(s, from, std::max(from, to));
  return w.take(s.markup);
}

}  // namespace isotope::text::jinja
