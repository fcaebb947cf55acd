// Native functions as rows: filters, tests, methods and globals. The row names the parameters, so that positional and keyword
// arguments are matched in one place.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace isotope::text::jinja {

class Vm;

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  const Value* find(std::string_view name) const;
  void drop(std::string_view name);
};

/// a[0] is the subject (the filtered or tested value, or the object of a method), a[1] … the parameters; Kind::missing where not
/// given.
using Fixed = Value (*)(Vm& vm, const Value* a);
/// For functions that take anything.
using Open = Value (*)(Vm& vm, const Value& subject, Args& args);

struct Row {
  std::string_view name;
  std::string_view params;      ///< "width,first,blank"
  uint8_t required = 0;         ///< how many of them must be given
  Fixed fixed = nullptr;
  Open open = nullptr;
  bool positional_only = false; ///< as C-implemented methods of Python
};

inline constexpr size_t kMaxParams = 6;

Value invoke(Vm& vm, const Row& row, const Value& subject, Args& args);

const Row* find_filter(std::string_view name);
const Row* find_test(std::string_view name);
/// A method of a value, or null. Defined by type; the caller has checked that the sandbox allows it.
const Row* find_method(const Value& v, std::string_view name);
const Row* find_global(std::string_view name);

struct Function final : Object {
  std::string name;
  const char* type = "builtin_function_or_method";
  const Row* row = nullptr;
  Value self;                   ///< of a bound method
};
Value make_function(const Row& row, Value self = {}, const char* type = "builtin_function_or_method");

// Helpers for the bodies of rows.
inline bool given(const Value& v) { return !v.is(Kind::missing); }
int64_t int_arg(const Value& v, const char* what);                       ///< an int, or TypeError as Python words it
int64_t int_arg(const Value& v, const char* what, int64_t otherwise);    ///< the default when missing
const Str& str_arg(const Value& v, const char* what);                    ///< a str, or TypeError

// Tables, one for each source file.
struct Table { const Row* rows; size_t size; };
Table string_filters();
Table sequence_filters();
Table value_filters();
Table string_methods();

}  // namespace isotope::text::jinja
