// Filters that make text.
#include <algorithm>

#include "text/jinja_call.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_unicode.h"
#include "text/jinja_vm.h"

namespace isotope::text::jinja {
namespace {

template <Casing how>
Value cased(Vm& vm, const Value* a) { return change_case(vm.b, str(soft_str(vm.b, a[0])), how); }

// Words start behind white space and -({[<. The first character goes up, the rest down.
Value title(Vm& vm, const Value* a) {
  const Value v = soft_str(vm.b, a[0]);
  const Str& s = str(v);
  const auto is_break = [](char32_t c) { return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c); };
  Writer w(vm.b);
  vm.b.charge(s.text.size() / 32);
  const auto put = [&](size_t from, size_t to) {
    if (from == to) return;
    size_t second = from;
    next_point(s.text, second);
    w.add(str(change_case(vm.b, str(substring(vm.b, s, from, second)), Casing::upper)));
    w.add(str(change_case(vm.b, str(substring(vm.b, s, second, to)), Casing::lower)));
  };
  size_t start = 0;
  for (size_t i = 0; i < s.text.size();) {
    const size_t at = i;
    if (!is_break(next_point(s.text, i))) continue;
    put(start, at), w.add(s, at, i);
    start = i;
  }
  put(start, s.text.size());
  return w.take();
}

Value trim(Vm& vm, const Value* a) { return strip(vm.b, str(soft_str(vm.b, a[0])), a[1], true, true); }

Value replace_filter(Vm& vm, const Value* a) {
  const Value s = to_str(vm.b, a[0]), from = to_str(vm.b, a[1]), to = to_str(vm.b, a[2]);
  return replace(vm.b, str(s), str(from), str(to), given(a[3]) && !a[3].is(Kind::none) ? int_arg(a[3], "count") : -1);
}

Value center_filter(Vm& vm, const Value* a) { return center(vm.b, str(soft_str(vm.b, a[0])), int_arg(a[1], "width", 80)); }

Value indent(Vm& vm, const Value* a) {
  if (a[0].is(Kind::undefined)) raise_undefined(a[0]);
  if (!a[0].is(Kind::string))
    raise(Fault::type, std::string("unsupported operand type(s) for +=: '") + type_name(a[0]) + "' and 'str'");
  const Str& s = str(a[0]);
  Value by = given(a[1]) ? a[1] : Value::integer(4);
  if (!by.is(Kind::string)) by = pad(vm.b, str(make_literal({})), int_arg(by, "width"), 0);
  const bool first = given(a[2]) && truth(a[2]), blank = given(a[3]) && truth(a[3]);
  Writer whole(vm.b);
  whole.add(s), whole.add("\n");  // splitlines drops a last empty line otherwise
  const Value text_value = whole.take();
  const std::vector<Value> lines = split_lines(vm.b, str(text_value), false);
  Writer w(vm.b);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i) w.add("\n");
    if (i == 0 ? first : blank || !text(lines[i]).empty()) w.add(str(by));
    w.add(str(lines[i]));
  }
  return w.take(s.markup);
}

Value truncate(Vm& vm, const Value* a) {
  const int64_t size = int_arg(a[1], "length", 255), leeway = given(a[4]) && !a[4].is(Kind::none) ? int_arg(a[4], "leeway") : 5;
  const bool kill = given(a[2]) && truth(a[2]);
  const Value end = given(a[3]) ? a[3] : make_literal("...");
  const auto end_size = static_cast<int64_t>(length(end));
  if (size < end_size) raise(Fault::value, "expected length >= " + std::to_string(end_size) + ", got " + std::to_string(size));
  if (leeway < 0) raise(Fault::value, "expected leeway >= 0, got " + std::to_string(leeway));
  if (static_cast<int64_t>(length(a[0])) <= (size > INT64_MAX - leeway ? INT64_MAX : size + leeway)) return a[0];
  Value cut = slice(vm.b, a[0], Value::none(), Value::integer(size - end_size), Value::none());
  if (!kill) cut = rsplit(vm.b, str_arg(cut, "the value"), make_literal(" "), 1)[0];
  return add(vm.b, cut, end);
}

Value word_count(Vm& vm, const Value* a) {
  const Value v = soft_str(vm.b, a[0]);
  const std::string_view s = text(v);
  vm.b.charge(s.size() / 32);
  int64_t n = 0;
  bool before = false;
  for (size_t i = 0; i < s.size();) {
    const bool word = is_word(next_point(s, i));
    n += word && !before;
    before = word;
  }
  return Value::integer(n);
}

Value format_filter(Vm& vm, const Value& subject, Args& args) {
  if (!args.positional.empty() && !args.named.empty())
    raise(Fault::argument, "can't handle positional and keyword arguments at the same time");
  const Value format = soft_str(vm.b, subject);
  if (args.named.empty()) return format_percent(vm, str(format), make_tuple(vm.b, args.positional));
  auto d = std::make_shared<Dict>();
  for (auto& [k, v] : args.named) d->set(vm.b, make_string(vm.b, k), v);
  return format_percent(vm, str(format), make_dict(vm.b, std::move(d)));
}

Value escape_filter(Vm& vm, const Value* a) { return escape_html(vm.b, a[0]); }

Value force_escape(Vm& vm, const Value* a) {
  Value plain = to_str(vm.b, a[0]);
  return escape_html(vm.b, plain);
}

Value safe(Vm& vm, const Value* a) {
  const Value s = to_str(vm.b, a[0]);
  Writer w(vm.b);
  w.add(str(s));
  return w.take(true);
}

Value string_filter(Vm& vm, const Value* a) { return soft_str(vm.b, a[0]); }

struct Entity { std::string_view name; const char* text; };
constexpr Entity kEntities[] = {{"amp", "&"},
                                {"lt", "<"},
                                {"gt", ">"},
                                {"quot", "\""},
                                {"apos", "'"},
                                {"nbsp", "\xc2\xa0"},
                                {"raquo", "\xc2\xbb"},
                                {"laquo", "\xc2\xab"},
                                {"copy", "\xc2\xa9"},
                                {"reg", "\xc2\xae"},
                                {"hellip", "\xe2\x80\xa6"},
                                {"mdash", "\xe2\x80\x94"},
                                {"ndash", "\xe2\x80\x93"},
                                {"lsquo", "\xe2\x80\x98"},
                                {"rsquo", "\xe2\x80\x99"},
                                {"ldquo", "\xe2\x80\x9c"},
                                {"rdquo", "\xe2\x80\x9d"},
                                {"bull", "\xe2\x80\xa2"}};

// The common named entities and all numbered ones; others stay as they are.
Value unescape(Budget& b, const Str& s) {
  Writer w(b);
  ContentCursor cursor(s);
  size_t from = 0;
  for (size_t amp = 0; (amp = s.text.find('&', amp)) != kNone; ++amp) {
    const size_t end = s.text.find(';', amp);
    if (end == kNone || end - amp > 12) continue;
    const std::string_view name = std::string_view(s.text).substr(amp + 1, end - amp - 1);
    std::string to;
    if (name.size() > 1 && name[0] == '#') {
      const bool hex = (name[1] | 32) == 'x';
      const std::string digits(name.substr(hex ? 2 : 1));
      if (digits.empty() || digits.size() > 8 || digits.find_first_not_of(hex ? "0123456789abcdefABCDEF" : "0123456789") != kNone)
        continue;
      const unsigned long c = std::stoul(digits, nullptr, hex ? 16 : 10);
      append_point(to, c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0xfffd : static_cast<char32_t>(c));
    } else {
      const auto e = std::find_if(std::begin(kEntities), std::end(kEntities), [&](const Entity& x) { return x.name == name; });
      if (e == std::end(kEntities)) continue;
      to = e->text;
    }
    w.add(s, from, amp), w.add(to, cursor.at(amp));
    from = end + 1;
    amp = end;
  }
  w.add(s, from, s.text.size());
  return w.take();
}

Value strip_tags(Vm& vm, const Value* a) {
  const Value v = to_str(vm.b, a[0]);
  const Str& s = str(v);
  vm.b.charge(s.text.size() / 32);
  Writer w(vm.b);
  size_t pos = 0;
  for (size_t start; (start = s.text.find('<', pos)) != kNone;) {
    const bool comment = s.text.compare(start, 4, "<!--") == 0;
    const size_t end = comment ? s.text.find("-->", start + 4) : s.text.find('>', start);
    if (end == kNone) break;
    w.add(s, pos, start);
    pos = end + (comment ? 3 : 1);
  }
  w.add(s, pos, s.text.size());
  const Value bare = w.take();
  const Value joined = join(vm.b, str(make_literal(" ")), split(vm.b, str(bare), Value::none(), -1));
  return unescape(vm.b, str(joined));
}

void quote_url(Writer& w, const Value& v, bool query) {
  const Value s = to_str(w.budget(), v);
  ContentCursor cursor(str(s));
  constexpr char kHex[] = "0123456789ABCDEF";
  for (size_t i = 0; i < text(s).size(); ++i) {
    const auto c = static_cast<unsigned char>(text(s)[i]);
    const bool keep = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' ||
                      c == '-' || c == '~' || (c == '/' && !query);
    const char code[] = {'%', kHex[c >> 4], kHex[c & 15]};
    if (keep) w.add(str(s), i, i + 1);
    else if (c == ' ' && query) w.add("+", cursor.at(i));
    else w.add(std::string_view(code, 3), cursor.at(i));
  }
}

Value url_encode(Vm& vm, const Value* a) {
  Writer w(vm.b);
  if (a[0].is(Kind::string) || !is_iterable(a[0])) {
    quote_url(w, a[0], false);
    return w.take();
  }
  Args none;
  Value items = a[0];
  if (items.is(Kind::dict)) items = vm.call(vm.attribute(items, "items"), none);
  bool first = true;
  for (const Value& pair : collect(vm.b, items)) {
    const std::vector<Value> kv = collect(vm.b, pair);
    if (kv.size() != 2) raise(Fault::value, "urlencode takes pairs");
    if (!first) w.add("&");
    first = false;
    quote_url(w, kv[0], true), w.add("="), quote_url(w, kv[1], true);
  }
  return w.take();
}

Value xml_attributes(Vm& vm, const Value* a) {
  if (a[0].is(Kind::undefined)) raise_undefined(a[0]);
  if (!a[0].is(Kind::dict)) raise(Fault::type, std::string("'") + type_name(a[0]) + "' object has no attribute 'items'");
  Writer w(vm.b);
  const bool space = !given(a[1]) || truth(a[1]);
  bool first = true;
  for (const auto& [k, v] : a[0].as<Dict>().items()) {
    if (v.is(Kind::none) || v.is(Kind::undefined)) continue;
    if (!k.is(Kind::string)) raise(Fault::type, "expected string or bytes-like object");
    if (text(k).find_first_of(" \t\n\r\f\v/>=") != kNone)
      raise(Fault::value, "Invalid character in attribute name: " + repr_text(k));
    if (!first || space) w.add(" ");
    first = false;
    w.add(str(escape_html(vm.b, k))), w.add("=\""), w.add(str(escape_html(vm.b, v))), w.add("\"");
  }
  return w.take();
}

constexpr Row kRows[] = {
    {"trim", "chars", 0, trim},
    {"upper", "", 0, cased<Casing::upper>},
    {"lower", "", 0, cased<Casing::lower>},
    {"title", "", 0, title},
    {"capitalize", "", 0, cased<Casing::capitalize>},
    {"replace", "old,new,count", 2, replace_filter},
    {"indent", "width,first,blank", 0, indent},
    {"string", "", 0, string_filter},
    {"safe", "", 0, safe},
    {"e", "", 0, escape_filter},
    {"escape", "", 0, escape_filter},
    {"forceescape", "", 0, force_escape},
    {"format", "", 0, nullptr, format_filter},
    {"center", "width", 0, center_filter},
    {"truncate", "length,killwords,end,leeway", 0, truncate},
    {"wordcount", "", 0, word_count},
    {"striptags", "", 0, strip_tags},
    {"urlencode", "", 0, url_encode},
    {"xmlattr", "autospace", 0, xml_attributes},
};

}  // namespace

Table string_filters() { return {kRows, std::size(kRows)}; }

}  // namespace isotope::text::jinja
