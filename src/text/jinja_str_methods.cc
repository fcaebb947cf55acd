// The methods of str, as rows.
#include <algorithm>
#include <functional>

#include "text/jinja_call.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_unicode.h"
#include "text/jinja_vm.h"

namespace isotope::text::jinja {
namespace {

template <Casing how>
Value cased(Vm& vm, const Value* a) { return change_case(vm.b, str(a[0]), how); }

template <bool left, bool right>
Value stripped(Vm& vm, const Value* a) { return strip(vm.b, str(a[0]), a[1], left, right); }

// All code points satisfy the rule, and there is one (Python's is… methods).
template <bool (*rule)(char32_t)>
Value every(Vm& vm, const Value* a) {
  const std::string& s = str(a[0]).text;
  vm.b.charge(s.size() / 32);
  for (size_t i = 0; i < s.size();)
    if (!rule(next_point(s, i))) return Value::boolean(false);
  return Value::boolean(!s.empty());
}

bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }

// At least one cased code point, and none of the wrong case.
template <bool upper>
Value all_case(Vm& vm, const Value* a) {
  const std::string& s = str(a[0]).text;
  vm.b.charge(s.size() / 32);
  bool seen = false;
  for (size_t i = 0; i < s.size();) {
    const char32_t c = next_point(s, i);
    if ((upper ? is_lower(c) : is_upper(c)) || is_title(c)) return Value::boolean(false);
    seen = seen || (upper ? is_upper(c) : is_lower(c));
  }
  return Value::boolean(seen);
}

Value is_title_text(Vm&, const Value* a) {
  const std::string& s = str(a[0]).text;
  bool before = false, seen = false;
  for (size_t i = 0; i < s.size();) {
    const char32_t c = next_point(s, i);
    if (is_upper(c) || is_title(c)) {
      if (before) return Value::boolean(false);
      before = seen = true;
    } else if (is_lower(c)) {
      if (!before) return Value::boolean(false);
      seen = true;
    } else {
      before = false;
    }
  }
  return Value::boolean(seen);
}

Value is_ascii_text(Vm&, const Value* a) { return Value::boolean(str(a[0]).ascii()); }
Value is_identifier_text(Vm&, const Value* a) { return Value::boolean(is_identifier(text(a[0]))); }
Value is_printable_text(Vm&, const Value* a) {
  const std::string& s = str(a[0]).text;
  for (size_t i = 0; i < s.size();)
    if (!is_printable(next_point(s, i))) return Value::boolean(false);
  return Value::boolean(true);
}

// The part s[start:end] in bytes. `valid` is false when start lies behind the end: then not even "" is found.
struct Window { size_t from, to; bool valid; };

Window window(const Str& s, const Value& start, const Value& end) {
  const auto n = static_cast<int64_t>(s.points);
  const auto point = [&](const Value& v, int64_t otherwise) {
    if (!given(v) || v.is(Kind::none)) return otherwise;
    if (!v.is_int()) raise(Fault::type, "slice indices must be integers or None or have an __index__ method");
    return v.as_int() < 0 ? std::max<int64_t>(v.as_int() + n, 0) : v.as_int();
  };
  const int64_t from = point(start, 0), to = std::min(point(end, n), n);
  if (from > to) return {0, 0, false};
  return {s.offset(static_cast<size_t>(from)), s.offset(static_cast<size_t>(to)), true};
}

template <bool backward>
int64_t search(Vm& vm, const Value* a) {
  const Str& s = str(a[0]);
  const Str& needle = str_arg(a[1], "argument");
  const Window w = window(s, a[2], a[3]);
  if (!w.valid) return -1;
  const std::string_view part = std::string_view(s.text).substr(w.from, w.to - w.from);
  const size_t hit = backward ? rfind_bytes(vm.b, part, needle.text) : find_bytes(vm.b, part, needle.text);
  if (hit == kNone) return -1;
  return static_cast<int64_t>(s.ascii() ? w.from + hit : count_points(std::string_view(s.text).substr(0, w.from + hit)));
}

template <bool backward>
Value find(Vm& vm, const Value* a) { return Value::integer(search<backward>(vm, a)); }

template <bool backward>
Value index(Vm& vm, const Value* a) {
  const int64_t at = search<backward>(vm, a);
  if (at < 0) raise(Fault::value, "substring not found");
  return Value::integer(at);
}

Value count(Vm& vm, const Value* a) {
  const Str& s = str(a[0]);
  const Str& needle = str_arg(a[1], "argument");
  const Window w = window(s, a[2], a[3]);
  if (!w.valid) return Value::integer(0);
  const std::string_view part = std::string_view(s.text).substr(w.from, w.to - w.from);
  if (needle.text.empty()) return Value::integer(static_cast<int64_t>(count_points(part)) + 1);
  int64_t n = 0;
  for (size_t at = 0; (at = find_bytes(vm.b, part, needle.text, at)) != kNone; at += needle.text.size()) ++n, vm.b.charge(1);
  return Value::integer(n);
}

template <bool suffix>
Value has_end(Vm&, const Value* a) {
  const Str& s = str(a[0]);
  const Window w = window(s, a[2], a[3]);
  const std::string_view part = std::string_view(s.text).substr(w.from, w.to - w.from);
  const auto matches = [&](std::string_view t) {
    return w.valid && part.size() >= t.size() && part.substr(suffix ? part.size() - t.size() : 0, t.size()) == t;
  };
  const char* name = suffix ? "endswith" : "startswith";
  if (a[1].is(Kind::tuple)) {
    for (const Value& v : a[1].as<Seq>().items) {
      if (!v.is(Kind::string))
        raise(Fault::type, std::string("tuple for ") + name + " must only contain str, not " + type_name(v));
      if (matches(text(v))) return Value::boolean(true);
    }
    return Value::boolean(false);
  }
  if (!a[1].is(Kind::string))
    raise(Fault::type, std::string(name) + " first arg must be str or a tuple of str, not " + type_name(a[1]));
  return Value::boolean(matches(text(a[1])));
}

template <bool suffix>
Value remove_end(Vm& vm, const Value* a) {
  const Str& s = str(a[0]);
  const std::string_view t = str_arg(a[1], "argument").text;
  if (s.text.size() < t.size() || s.text.compare(suffix ? s.text.size() - t.size() : 0, t.size(), t) != 0) return a[0];
  return suffix ? substring(vm.b, s, 0, s.text.size() - t.size()) : substring(vm.b, s, t.size(), s.text.size());
}

Value replaced(Vm& vm, const Value* a) {
  const Str& s = str(a[0]);
  const Value to = s.markup ? escape_html(vm.b, a[2]) : a[2];
  return replace(vm.b, s, str_arg(a[1], "replace() argument 1"), str_arg(to, "replace() argument 2"), int_arg(a[3], "count", -1));
}

Value joined(Vm& vm, const Value* a) {
  if (!is_iterable(a[1])) raise(Fault::type, "can only join an iterable");
  return join(vm.b, str(a[0]), collect(vm.b, a[1]));
}

template <bool backward>
Value splits(Vm& vm, const Value* a) {
  const int64_t max = int_arg(a[2], "maxsplit", -1);
  return make_list(vm.b, backward ? rsplit(vm.b, str(a[0]), a[1], max) : split(vm.b, str(a[0]), a[1], max));
}

Value lines(Vm& vm, const Value* a) { return make_list(vm.b, split_lines(vm.b, str(a[0]), given(a[1]) && truth(a[1]))); }

template <bool backward>
Value partition(Vm& vm, const Value* a) {
  const Str& s = str(a[0]);
  const Str& sep = str_arg(a[1], "separator");
  if (sep.text.empty()) raise(Fault::value, "empty separator");
  const size_t hit = backward ? rfind_bytes(vm.b, s.text, sep.text) : find_bytes(vm.b, s.text, sep.text);
  const size_t n = s.text.size();
  if (hit == kNone && backward)
    return make_tuple(vm.b, {substring(vm.b, s, 0, 0), substring(vm.b, s, 0, 0), substring(vm.b, s, 0, n)});
  if (hit == kNone) return make_tuple(vm.b, {substring(vm.b, s, 0, n), substring(vm.b, s, n, n), substring(vm.b, s, n, n)});
  const size_t end = hit + sep.text.size();
  return make_tuple(vm.b, {substring(vm.b, s, 0, hit), substring(vm.b, s, hit, end), substring(vm.b, s, end, n)});
}

enum class Side : uint8_t { left, right, both };

template <Side side>
Value justified(Vm& vm, const Value* a) {
  const Str& s = str(a[0]);
  const int64_t width = int_arg(a[1], "width");
  const Str* fill = given(a[2]) ? &str_arg(a[2], "The fill character") : nullptr;
  const int64_t room = width > static_cast<int64_t>(s.points) ? width - static_cast<int64_t>(s.points) : 0;
  if (side == Side::both) return center(vm.b, s, width, fill);
  return side == Side::left ? pad(vm.b, s, 0, room, fill) : pad(vm.b, s, room, 0, fill);
}

Value zero_filled(Vm& vm, const Value* a) {
  const Str& s = str(a[0]);
  const int64_t width = int_arg(a[1], "width");
  const bool sign = !s.text.empty() && (s.text[0] == '-' || s.text[0] == '+');
  Writer w(vm.b);
  if (sign) w.add(s, 0, 1);
  if (width > static_cast<int64_t>(s.points)) {
    const auto room = static_cast<size_t>(width) - s.points;
    vm.b.check_string(s.text.size() + room);
    w.add(std::string(room, '0'));
  }
  w.add(s, sign ? 1 : 0, s.text.size());
  return w.take(s.markup);
}

Value expanded_tabs(Vm& vm, const Value* a) {
  const Str& s = str(a[0]);
  const int64_t size = int_arg(a[1], "tabsize", 8);
  Writer w(vm.b);
  int64_t column = 0;
  for (size_t i = 0; i < s.text.size();) {
    const size_t at = i;
    const char32_t c = next_point(s.text, i);
    if (c != '\t') {
      w.add(s, at, i);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    } else if (size > 0) {
      const int64_t n = size - column % size;
      vm.b.check_string(static_cast<size_t>(n));
      w.add(std::string(static_cast<size_t>(n), ' '));
      column += n;
    }
  }
  vm.b.charge(s.text.size() / 16);
  return w.take(s.markup);
}

Value encoded(Vm& vm, const Value* a) {
  const std::string name = given(a[1]) ? std::string(str_arg(a[1], "encode() argument 'encoding'").text) : "utf-8";
  if (name != "utf-8" && name != "utf8" && name != "UTF-8" && !(name == "ascii" && str(a[0]).ascii()))
    raise(Fault::unsupported, "encode() knows utf-8 only");
  auto o = std::make_shared<Bytes>();
  vm.b.check_string(text(a[0]).size());
  vm.b.charge(1 + text(a[0]).size() / 256);
  o->data = text(a[0]);
  return {Kind::bytes, std::move(o)};
}

Value format_method(Vm& vm, const Value& self, Args& args) { return format_braces(vm, str(self), args); }

Value format_map(Vm& vm, const Value* a) {
  if (!a[1].is(Kind::dict)) raise(Fault::type, "format_map() takes a mapping");
  Args args;
  for (const auto& [k, v] : a[1].as<Dict>().items())
    if (k.is(Kind::string)) args.named.emplace_back(std::string(text(k)), v);
  return format_braces(vm, str(a[0]), args);
}

Value no_tables(Vm&, const Value&, Args&) {
  raise(Fault::unsupported, "translation tables (maketrans, translate) are not supported");
}

constexpr Row kMethods[] = {
    {"strip", "chars", 0, stripped<true, true>, nullptr, true},
    {"split", "sep,maxsplit", 0, splits<false>},
    {"startswith", "prefix,start,end", 1, has_end<false>, nullptr, true},
    {"endswith", "suffix,start,end", 1, has_end<true>, nullptr, true},
    {"lstrip", "chars", 0, stripped<true, false>, nullptr, true},
    {"rstrip", "chars", 0, stripped<false, true>, nullptr, true},
    {"replace", "old,new,count", 2, replaced, nullptr, true},
    {"upper", "", 0, cased<Casing::upper>},
    {"lower", "", 0, cased<Casing::lower>},
    {"title", "", 0, cased<Casing::title>},
    {"capitalize", "", 0, cased<Casing::capitalize>},
    {"casefold", "", 0, cased<Casing::fold>},
    {"swapcase", "", 0, cased<Casing::swap>},
    {"join", "iterable", 1, joined, nullptr, true},
    {"format", "", 0, nullptr, format_method},
    {"format_map", "mapping", 1, format_map, nullptr, true},
    {"find", "sub,start,end", 1, find<false>, nullptr, true},
    {"rfind", "sub,start,end", 1, find<true>, nullptr, true},
    {"index", "sub,start,end", 1, index<false>, nullptr, true},
    {"rindex", "sub,start,end", 1, index<true>, nullptr, true},
    {"count", "sub,start,end", 1, count, nullptr, true},
    {"rsplit", "sep,maxsplit", 0, splits<true>},
    {"splitlines", "keepends", 0, lines},
    {"partition", "sep", 1, partition<false>, nullptr, true},
    {"rpartition", "sep", 1, partition<true>, nullptr, true},
    {"removeprefix", "prefix", 1, remove_end<false>, nullptr, true},
    {"removesuffix", "suffix", 1, remove_end<true>, nullptr, true},
    {"ljust", "width,fillchar", 1, justified<Side::left>, nullptr, true},
    {"rjust", "width,fillchar", 1, justified<Side::right>, nullptr, true},
    {"center", "width,fillchar", 1, justified<Side::both>, nullptr, true},
    {"zfill", "width", 1, zero_filled, nullptr, true},
    {"expandtabs", "tabsize", 0, expanded_tabs},
    {"encode", "encoding,errors", 0, encoded},
    {"isalnum", "", 0, every<is_alnum>},
    {"isalpha", "", 0, every<is_alpha>},
    {"isascii", "", 0, is_ascii_text},
    {"isdecimal", "", 0, every<is_decimal>},
    {"isdigit", "", 0, every<is_digit>},
    {"isidentifier", "", 0, is_identifier_text},
    {"islower", "", 0, all_case<false>},
    {"isnumeric", "", 0, every<is_numeric>},
    {"isprintable", "", 0, is_printable_text},
    {"isspace", "", 0, every<is_space>},
    {"istitle", "", 0, is_title_text},
    {"isupper", "", 0, all_case<true>},
    {"maketrans", "", 0, nullptr, no_tables},
    {"translate", "", 0, nullptr, no_tables},
};

}  // namespace

Table string_methods() { return {kMethods, std::size(kMethods)}; }

}  // namespace isotope::text::jinja
