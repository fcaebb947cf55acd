#include "text/jinja_pretty.h"

#include <algorithm>

#include "text/jinja_number.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_unicode.h"

namespace isotope::text::jinja {
namespace {

constexpr int64_t kWidth = 80;

class Pretty {
 public:
  explicit Pretty(Budget& b) : b_(b), w_(b) {}

  Value run(const Value& v) {
    format(v, 0, 0, 0);
    return w_.take();
  }

 private:
  std::vector<Dict::Item> sorted(const Dict& d) {
    std::vector<Dict::Item> items = d.items();
    try {
      sort_by(b_, items, false);
    } catch (const Failure& f) {  // keys of several types: by type, then as they are
      if (f.fault != Fault::type) throw;
      items = d.items();
      std::stable_sort(items.begin(), items.end(),
                       [](const auto& x, const auto& y) { return std::string_view(type_name(x.first)) < type_name(y.first); });
    }
    return items;
  }

  // repr() with sorted dicts.
  void flat(Writer& w, const Value& v) {
    b_.charge(1);
    const auto list = [&](const std::vector<Value>& items, const char* open, const char* close) {
      w.add(open);
      for (size_t i = 0; i < items.size(); ++i) {
        if (i) w.add(", ");
        flat(w, items[i]);
      }
      w.add(close);
    };
    if (v.is(Kind::list)) return list(v.as<Seq>().items, "[", "]");
    if (v.is(Kind::tuple)) return list(v.as<Seq>().items, "(", v.as<Seq>().items.size() == 1 ? ",)" : ")");
    if (!v.is(Kind::dict)) return write_repr(w, v);
    w.add("{");
    bool first = true;
    for (const auto& [k, x] : sorted(v.as<Dict>())) {
      if (!first) w.add(", ");
      first = false;
      flat(w, k), w.add(": "), flat(w, x);
    }
    w.add("}");
  }

  Value flat(const Value& v) {
    Writer w(b_);
    flat(w, v);
    return w.take();
  }

  void newline(int64_t indent) { w_.add("\n" + std::string(static_cast<size_t>(std::max<int64_t>(indent, 0)), ' ')); }

  void format(const Value& v, int64_t indent, int64_t allowance, int level) {
    const Value rep = flat(v);
    if (static_cast<int64_t>(str(rep).points) <= kWidth - indent - allowance) return w_.add(str(rep));
    if (v.is(Kind::dict)) return format_dict(v.as<Dict>(), indent + 1, allowance + 1, level + 1);
    if (v.is(Kind::list) || v.is(Kind::tuple)) {
      const auto& items = v.as<Seq>().items;
      const bool single = v.is(Kind::tuple) && items.size() == 1;
      w_.add(v.is(Kind::list) ? "[" : "(");
      for (size_t i = 0; i < items.size(); ++i) {
        if (i) w_.add(","), newline(indent + 1);
        format(items[i], indent + 1, i + 1 == items.size() ? allowance + (single ? 2 : 1) : 1, level + 1);
      }
      return w_.add(v.is(Kind::list) ? "]" : single ? ",)" : ")");
    }
    if (v.is(Kind::string) && !str(v).markup) return format_string(str(v), indent, allowance, level + 1);
    w_.add(str(rep));
  }

  void format_dict(const Dict& d, int64_t indent, int64_t allowance, int level) {
    w_.add("{");
    const auto items = sorted(d);
    for (size_t i = 0; i < items.size(); ++i) {
      if (i) w_.add(","), newline(indent);
      const Value key = flat(items[i].first);
      w_.add(str(key)), w_.add(": ");
      format(items[i].second, indent + static_cast<int64_t>(str(key).points) + 2, i + 1 == items.size() ? allowance : 1, level);
    }
    w_.add("}");
  }

  // Long strings are cut behind white space into several literals.
  void format_string(const Str& s, int64_t indent, int64_t allowance, int level) {
    if (level == 1) ++indent, ++allowance;
    const int64_t width = kWidth - indent;
    const auto size = [](const Value& v) { return static_cast<int64_t>(str(v).points); };
    std::vector<Value> chunks;
    const std::vector<Value> lines = split_lines(b_, s, true);
    Value rep;
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool last_line = i + 1 == lines.size();
      rep = flat(lines[i]);
      if (size(rep) <= width - (last_line ? allowance : 0)) {
        chunks.push_back(rep);
        continue;
      }
      const Str& line = str(lines[i]);
      size_t from = 0, to = 0;  // the current chunk
      for (size_t p = 0; p < line.text.size();) {
        size_t end = p;
        for (const bool space : {false, true})
          while (end < line.text.size()) {
            size_t next = end;
            if (is_space(next_point(line.text, next)) != space) break;
            end = next;
          }
        const bool last_part = last_line && end == line.text.size();
        const Value candidate = flat(substring(b_, line, from, end));
        if (size(candidate) > width - (last_part ? allowance : 0)) {
          if (to > from) chunks.push_back(flat(substring(b_, line, from, to)));
          from = p;
        }
        to = p = end;
      }
      if (to > from) chunks.push_back(flat(substring(b_, line, from, to)));
    }
    if (chunks.size() == 1) return w_.add(str(rep));
    if (level == 1) w_.add("(");
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (i) newline(indent);
      w_.add(str(chunks[i]));
    }
    if (level == 1) w_.add(")");
  }

  Budget& b_;
  Writer w_;
};

}  // namespace

Value pretty_print(Budget& b, const Value& v) { return Pretty(b).run(v); }

}  // namespace isotope::text::jinja
