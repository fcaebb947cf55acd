// json.dumps: what the tojson filter of chat templates calls.
#include <algorithm>
#include <cmath>

#include "text/jinja_number.h"
#include "text/jinja_repr.h"
#include "text/jinja_unicode.h"

namespace isotope::text::jinja {
namespace {

void unit_escape(Writer& w, char32_t unit, bool content) {
  const std::string digits = int_digits(unit, 16, false);
  w.add("\\u" + std::string(4 - digits.size(), '0') + digits, content);
}

void json_string(Writer& w, const Str& s, bool ascii) {
  w.add("\"");
  ContentCursor cursor(s);
  size_t plain = 0;
  for (size_t i = 0; i < s.text.size();) {
    const size_t at = i;
    const char32_t c = next_point(s.text, i);
    if (c >= 0x20 && c != '"' && c != '\\' && !(ascii && c > 0x7e)) continue;
    w.add(s, plain, at);
    plain = i;
    const bool content = cursor.at(at);
    switch (c) {
      case '"': w.add("\\\"", content); break;
      case '\\': w.add("\\\\", content); break;
      case '\n': w.add("\\n", content); break;
      case '\r': w.add("\\r", content); break;
      case '\t': w.add("\\t", content); break;
      case '\b': w.add("\\b", content); break;
      case '\f': w.add("\\f", content); break;
      default:
        if (c < 0x10000) unit_escape(w, c, content);
        else unit_escape(w, 0xd800 + ((c - 0x10000) >> 10), content), unit_escape(w, 0xdc00 + ((c - 0x10000) & 0x3ff), content);
    }
  }
  w.add(s, plain, s.text.size());
  w.add("\"");
}

std::string json_number(const Value& v) {
  if (v.is(Kind::big)) return v.as<BigInt>().digits;
  if (!v.is(Kind::real)) return std::to_string(v.as_int());
  const double d = v.as_real();
  return std::isnan(d) ? "NaN" : std::isinf(d) ? (d < 0 ? "-Infinity" : "Infinity") : repr_real(d);
}

void newline(Writer& w, const JsonStyle& style, size_t level) {
  if (!style.lines) return;
  w.add("\n");
  for (size_t i = 0; i < level; ++i) w.add(style.indent);
}

void json_key(Writer& w, const Value& k, bool ascii) {
  switch (k.kind()) {
    case Kind::string: return json_string(w, str(k), ascii);
    case Kind::none: return w.add("\"null\"");
    case Kind::boolean: return w.add(k.as_int() ? "\"true\"" : "\"false\"");
    case Kind::integer: case Kind::real: case Kind::big: return w.add("\"" + json_number(k) + "\"");
    default: raise(Fault::type, std::string("keys must be str, int, float, bool or None, not ") + type_name(k));
  }
}

void json_dict(Writer& w, const Dict& d, const JsonStyle& style, size_t level) {
  if (d.size() == 0) return w.add("{}");
  std::vector<std::pair<Value, Value>> items = d.items();
  if (style.sort_keys) sort_by(w.budget(), items, false);
  w.add("{");
  bool first = true;
  for (const auto& [k, v] : items) {
    if (!first) w.add(style.comma);
    first = false;
    newline(w, style, level + 1);
    json_key(w, k, style.ascii);
    w.add(style.colon);
    write_json(w, v, style, level + 1);
  }
  newline(w, style, level);
  w.add("}");
}

void json_list(Writer& w, const std::vector<Value>& items, const JsonStyle& style, size_t level) {
  if (items.empty()) return w.add("[]");
  w.add("[");
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) w.add(style.comma);
    newline(w, style, level + 1);
    write_json(w, items[i], style, level + 1);
  }
  newline(w, style, level);
  w.add("]");
}

}  // namespace

void write_json(Writer& w, const Value& v, const JsonStyle& style, size_t level) {
  w.budget().charge(1);
  switch (v.kind()) {
    case Kind::none: return w.add("null");
    case Kind::boolean: return w.add(v.as_int() ? "true" : "false");
    case Kind::integer: case Kind::real: case Kind::big: return w.add(json_number(v));
    case Kind::string: return json_string(w, str(v), style.ascii);
    case Kind::list: case Kind::tuple: return json_list(w, v.as<Seq>().items, style, level);
    case Kind::dict: return json_dict(w, v.as<Dict>(), style, level);
    default: raise(Fault::type, std::string("Object of type ") + type_name(v) + " is not JSON serializable");
  }
}

}  // namespace isotope::text::jinja
