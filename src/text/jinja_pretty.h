// pprint.pformat and textwrap.wrap.
#pragma once

#include "text/jinja_value.h"

namespace isotope::text::jinja {

Value pretty_print(Budget& b, const Value& v);  ///< 80 columns, dicts sorted

struct WrapStyle {
  int64_t width = 79;
  bool break_words = true, break_hyphens = true;
  std::string newline = "\n";
};
/// Lines are wrapped one by one. The result is content as a whole if any input was.
Value wrap_words(Budget& b, const Str& s, const WrapStyle& style);

}  // namespace isotope::text::jinja
