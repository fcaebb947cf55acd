// str() and repr() of every value, and json.dumps.
#pragma once

#include "text/jinja_value.h"

namespace isotope::text::jinja {

void write_str(Writer& w, const Value& v);
void write_repr(Writer& w, const Value& v);
Value to_str(Budget& b, const Value& v);    ///< str(v): a plain string
Value soft_str(Budget& b, const Value& v);  ///< markupsafe.soft_str: strings stay as they are
std::string repr_text(const Value& v);      ///< for messages; cut when long
Value escape_html(Budget& b, const Value& v);  ///< markupsafe.escape

struct JsonStyle {
  bool ascii = false, sort_keys = false;
  bool lines = false;                         ///< indent was given
  std::string indent;                         ///< one level
  std::string comma = ", ", colon = ": ";
};
void write_json(Writer& w, const Value& v, const JsonStyle& style, size_t level = 0);

}  // namespace isotope::text::jinja
