#include "text/jinja_repr.h"

#include "text/jinja_number.h"
#include "text/jinja_unicode.h"
#include "text/jinja_vm.h"

namespace isotope::text::jinja {
namespace {

void hex_escape(Writer& w, char32_t c, bool content) {
  const int width = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
  const std::string digits = int_digits(c, 16, false);
  w.add(width == 2 ? "\\x" : width == 4 ? "\\u" : "\\U", content);
  w.add(std::string(static_cast<size_t>(width) - digits.size(), '0') + digits, content);
}

void repr_string(Writer& w, const Str& s) {
  const char quote = s.text.find('\'') != std::string::npos && s.text.find('"') == std::string::npos ? '"' : '\'';
  if (s.markup) w.add("Markup(");
  w.add(std::string_view(&quote, 1));
  ContentCursor cursor(s);
  size_t plain = 0;  // start of the run that needs no escape
  for (size_t i = 0; i < s.text.size();) {
    const size_t at = i;
    const char32_t c = next_point(s.text, i);
    if (c != '\\' && c != static_cast<char32_t>(quote) && is_printable(c)) continue;
    w.add(s, plain, at);
    plain = i;
    const bool content = cursor.at(at);
    if (c == '\\' || c == static_cast<char32_t>(quote)) w.add("\\", content), w.add(s, at, i);
    else if (c == '\n') w.add("\\n", content);
    else if (c == '\r') w.add("\\r", content);
    else if (c == '\t') w.add("\\t", content);
    else hex_escape(w, c, content);
  }
  w.add(s, plain, s.text.size());
  w.add(std::string_view(&quote, 1));
  if (s.markup) w.add(")");
}

void repr_bytes(Writer& w, const std::string& data) {
  const char quote = data.find('\'') != std::string::npos && data.find('"') == std::string::npos ? '"' : '\'';
  std::string out = std::string("b") + quote;
  for (unsigned char c : data) {
    if (c == '\\' || c == static_cast<unsigned char>(quote)) out += '\\', out += static_cast<char>(c);
    else if (c == '\n') out += "\\n";
    else if (c == '\r') out += "\\r";
    else if (c == '\t') out += "\\t";
    else if (c < 0x20 || c >= 0x7f) out += std::string("\\x") + "0123456789abcdef"[c >> 4] + "0123456789abcdef"[c & 15];
    else out += static_cast<char>(c);
  }
  w.add(out + quote);
}

void repr_items(Writer& w, const std::vector<Value>& items, const char* open, const char* close) {
  w.add(open);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) w.add(", ");
    write_repr(w, items[i]);
  }
  w.add(close);
}

void repr_dict(Writer& w, const Dict& d) {
  w.add("{");
  bool first = true;
  for (const auto& [k, v] : d.items()) {
    if (!first) w.add(", ");
    first = false;
    write_repr(w, k), w.add(": "), write_repr(w, v);
  }
  w.add("}");
}

// Namespaces are the only values that can hold themselves.
void repr_space(Writer& w, const Value& v) {
  Space& s = v.as<Space>();
  if (s.depth != 1) return w.add("<Namespace {...}>");
  s.depth = 2;
  w.add("<Namespace "), repr_dict(w, s.attributes), w.add(">");
  s.depth = 1;
}

}  // namespace

void write_repr(Writer& w, const Value& v) {
  w.budget().charge(1);
  switch (v.kind()) {
    case Kind::missing: case Kind::undefined: return w.add("Undefined");
    case Kind::none: return w.add("None");
    case Kind::boolean: return w.add(v.as_int() ? "True" : "False");
    case Kind::integer: return w.add(std::to_string(v.as_int()));
    case Kind::big: return w.add(v.as<BigInt>().digits);
    case Kind::real: return w.add(repr_real(v.as_real()));
    case Kind::string: return repr_string(w, str(v));
    case Kind::bytes: return repr_bytes(w, v.as<Bytes>().data);
    case Kind::list: return repr_items(w, v.as<Seq>().items, "[", "]");
    case Kind::tuple: return repr_items(w, v.as<Seq>().items, "(", v.as<Seq>().items.size() == 1 ? ",)" : ")");
    case Kind::dict: return repr_dict(w, v.as<Dict>());
    case Kind::view: w.add(type_name(v)); return repr_items(w, collect(w.budget(), v), "([", "])");
    case Kind::range: {
      const auto& r = v.as<RangeObject>();
      return w.add("range(" + std::to_string(r.start) + ", " + std::to_string(r.stop) +
                   (r.step != 1 ? ", " + std::to_string(r.step) : "") + ")");
    }
    case Kind::space: return repr_space(w, v);
    case Kind::macro: return w.add(v.as<Macro>().anonymous() ? "<Macro anonymous>" : "<Macro '" + v.as<Macro>().name() + "'>");
    case Kind::loop:
      return w.add("<LoopContext " + std::to_string(v.as<Loop>().index0 + 1) + "/" + std::to_string(v.as<Loop>().length()) + ">");
    case Kind::function: return w.add("<" + std::string(type_name(v)) + " " + v.as<Function>().name + ">");
    default: return w.add(std::string("<") + type_name(v) + " object>");
  }
}

void write_str(Writer& w, const Value& v) {
  if (v.is(Kind::string)) w.add(str(v));
  else if (!v.is(Kind::undefined)) write_repr(w, v);
}

Value to_str(Budget& b, const Value& v) {
  if (v.is(Kind::string) && !str(v).markup) return v;
  Writer w(b);
  write_str(w, v);
  return w.take();
}

Value soft_str(Budget& b, const Value& v) { return v.is(Kind::string) ? v : to_str(b, v); }

std::string repr_text(const Value& v) {
  Budget b{.steps = 10000, .max_string = 4096};
  try {
    Writer w(b);
    write_repr(w, v);
    return std::string(text(w.take()));
  } catch (const Failure&) {
    return std::string("<") + type_name(v) + ">";
  }
}

Value escape_html(Budget& b, const Value& v) {
  if (v.is(Kind::string) && str(v).markup) return v;
  const Value plain = to_str(b, v);
  const Str& s = str(plain);
  Writer w(b);
  ContentCursor cursor(s);
  size_t from = 0;
  for (size_t i = 0; i < s.text.size(); ++i) {
    const char c = s.text[i];
    const char* to = c == '&'    ? "&amp;"
                     : c == '<'  ? "&lt;"
                     : c == '>'  ? "&gt;"
                     : c == '"'  ? "&#34;"
                     : c == '\'' ? "&#39;"
                                 : nullptr;
    if (!to) continue;
    w.add(s, from, i);
    w.add(to, cursor.at(i));
    from = i + 1;
  }
  w.add(s, from, s.text.size());
  return w.take(true);
}

}  // namespace isotope::text::jinja
