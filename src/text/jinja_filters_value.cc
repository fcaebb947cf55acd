// Filters on single values: defaults, numbers, JSON.
#include <cmath>

#include "text/jinja_call.h"
#include "text/jinja_number.h"
#include "text/jinja_pretty.h"
#include "text/jinja_repr.h"
#include "text/jinja_str.h"
#include "text/jinja_vm.h"

namespace isotope::text::jinja {
namespace {

Value default_filter(Vm&, const Value* a) {
  const bool falsy = given(a[2]) && truth(a[2]) && !truth(a[0]);
  if (!a[0].is(Kind::undefined) && !falsy) return a[0];
  return given(a[1]) ? a[1] : make_literal({});
}

Value attr_filter(Vm& vm, const Value* a) {
  const Value found = find_attribute(vm, a[0], str_arg(a[1], "the attribute name").text);
  return given(found) ? found : make_undefined(a[0], a[1]);
}

Value abs_filter(Vm&, const Value* a) {
  if (!a[0].is_number()) raise(Fault::type, std::string("bad operand type for abs(): '") + type_name(a[0]) + "'");
  if (a[0].is(Kind::real)) return Value::real(std::fabs(a[0].as_real()));
  const bool minus = a[0].is(Kind::big) ? a[0].as<BigInt>().digits[0] == '-' : a[0].as_int() < 0;
  return minus ? negative(a[0]) : positive(a[0]);
}

double to_real(const Value& v) {
  double d = v.as_real();
  if (v.is(Kind::big)) parse_real(v.as<BigInt>().digits, d);
  return d;
}

Value whole(double d) {
  if (std::isnan(d)) raise(Fault::value, "cannot convert float NaN to integer");
  if (std::isinf(d)) raise(Fault::overflow, "cannot convert float infinity to integer");
  return make_number(std::trunc(d));
}

Value int_filter(Vm&, const Value* a) {
  const Value otherwise = given(a[1]) ? a[1] : Value::integer(0);
  if (a[0].is(Kind::undefined)) raise_undefined(a[0]);
  if (a[0].is(Kind::real)) return std::isnan(a[0].as_real()) ? otherwise : whole(a[0].as_real());
  if (a[0].is(Kind::big)) return a[0];
  if (a[0].is_int()) return positive(a[0]);
  if (!a[0].is(Kind::string)) return otherwise;
  Value out;
  if (parse_int(text(a[0]), given(a[2]) ? int_arg(a[2], "base") : 10, out)) return out;
  double d = 0;  // so that "42.23" gives 42
  return parse_real(text(a[0]), d) && std::isfinite(d) ? whole(d) : otherwise;
}

Value float_filter(Vm&, const Value* a) {
  if (a[0].is(Kind::undefined)) raise_undefined(a[0]);
  double d = 0;
  if (a[0].is_number()) return Value::real(to_real(a[0]));
  if (a[0].is(Kind::string) && parse_real(text(a[0]), d)) return Value::real(d);
  return given(a[1]) ? a[1] : Value::real(0.0);
}

// round(int, digits): digits < 0 rounds half to even at that power of ten.
Value round_int(const Value& v, int64_t digits) {
  if (digits >= 0 || v.is(Kind::big)) return positive(v);
  if (digits < -18) return Value::integer(0);
  int64_t unit = 1;
  for (int64_t i = 0; i < -digits; ++i) unit *= 10;
  const __int128 n = v.as_int();
  __int128 down = n / unit * unit;
  if (n < down) down -= unit;
  const __int128 rest = n - down, twice = rest * 2;
  const bool up = twice > unit || (twice == unit && (down / unit) % 2 != 0);
  const __int128 out = down + (up ? unit : 0);
  if (out > INT64_MAX || out < INT64_MIN) raise(Fault::overflow, "an integer result does not fit into 64 bits");
  return Value::integer(static_cast<int64_t>(out));
}

Value round_filter(Vm& vm, const Value* a) {
  const std::string method(given(a[2]) && a[2].is(Kind::string) ? text(a[2]) : std::string_view("common"));
  if (method != "common" && method != "ceil" && method != "floor") raise(Fault::argument, "method must be common, ceil or floor");
  if (a[0].is(Kind::undefined)) raise_undefined(a[0]);
  if (!a[0].is_number()) raise(Fault::type, std::string("type ") + type_name(a[0]) + " doesn't define __round__ method");
  const Value precision = given(a[1]) ? a[1] : Value::integer(0);
  if (method == "common") {
    const int64_t digits = int_arg(precision, "precision");
    return a[0].is(Kind::real) ? Value::real(round_real(a[0].as_real(), digits)) : round_int(a[0], digits);
  }
  const Value unit = arithmetic(vm.b, Op::pow, Value::integer(10), precision);
  const Value scaled = arithmetic(vm.b, Op::mul, a[0], unit);
  const Value rounded =
      scaled.is(Kind::real) ? whole(method == "ceil" ? std::ceil(scaled.as_real()) : std::floor(scaled.as_real())) : scaled;
  if (rounded.is(Kind::big)) return Value::real(to_real(rounded) / unit.as_real());
  return arithmetic(vm.b, Op::div, rounded, unit);
}

Value file_size(Vm&, const Value* a) {
  double bytes = 0;
  if (a[0].is(Kind::undefined)) raise_undefined(a[0]);
  if (a[0].is_number()) bytes = to_real(a[0]);
  else if (!a[0].is(Kind::string))
    raise(Fault::type, std::string("float() argument must be a string or a real number, not '") + type_name(a[0]) + "'");
  else if (!parse_real(text(a[0]), bytes)) raise(Fault::value, "could not convert string to float: " + repr_text(a[0]));
  const bool binary = given(a[1]) && truth(a[1]);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return make_literal("1 Byte");
  if (bytes < base) return make_literal(repr_text(whole(bytes)) + " Bytes");
  double unit = base;
  const char* kPrefix = "kMGTPEZY";
  for (int i = 0; i < 8; ++i) {
    unit *= base;
    const std::string prefix = binary ? std::string(1, i == 0 ? 'K' : kPrefix[i]) + "iB" : std::string(1, kPrefix[i]) + "B";
    if (bytes < unit || i == 7) return make_literal(format_real(base * bytes / unit, 'f', 1) + " " + prefix);
  }
  return {};
}

Value to_json(Vm& vm, const Value* a) {
  JsonStyle style;
  style.ascii = given(a[1]) && truth(a[1]);
  style.sort_keys = given(a[4]) && truth(a[4]);
  if (given(a[2]) && !a[2].is(Kind::none)) {
    style.lines = true;
    style.comma = ",";
    if (a[2].is(Kind::string)) style.indent = text(a[2]);
    else {
      const int64_t n = int_arg(a[2], "indent");
      vm.b.check_string(static_cast<size_t>(std::max<int64_t>(n, 0)));
      style.indent.assign(static_cast<size_t>(std::max<int64_t>(n, 0)), ' ');
    }
  }
  if (given(a[3]) && !a[3].is(Kind::none)) {
    const std::vector<Value> pair = collect(vm.b, a[3]);
    if (pair.size() != 2) raise(Fault::value, "separators must be (item_separator, key_separator)");
    style.comma = str_arg(pair[0], "the item separator").text;
    style.colon = str_arg(pair[1], "the key separator").text;
  }
  Writer w(vm.b);
  write_json(w, a[0], style);
  return w.take();
}

Value pretty(Vm& vm, const Value* a) { return pretty_print(vm.b, a[0]); }

Value word_wrap(Vm& vm, const Value* a) {
  WrapStyle style;
  style.width = int_arg(a[1], "width", 79);
  style.break_words = !given(a[2]) || truth(a[2]);
  if (given(a[3]) && !a[3].is(Kind::none)) style.newline = str_arg(a[3], "wrapstring").text;
  style.break_hyphens = !given(a[4]) || truth(a[4]);
  if (a[0].is(Kind::undefined)) raise_undefined(a[0]);
  return wrap_words(vm.b, str_arg(a[0], "the value"), style);
}

Value random_filter(Vm&, const Value*) {
  raise(Fault::unsupported, "the filter 'random' is not supported: the same request must give the same prompt");
}

constexpr Row kRows[] = {
    {"tojson", "ensure_ascii,indent,separators,sort_keys", 0, to_json},
    {"default", "default_value,boolean", 0, default_filter},
    {"d", "default_value,boolean", 0, default_filter},
    {"attr", "name", 1, attr_filter},
    {"abs", "", 0, abs_filter},
    {"int", "default,base", 0, int_filter},
    {"float", "default", 0, float_filter},
    {"round", "precision,method", 0, round_filter},
    {"filesizeformat", "binary", 0, file_size},
    {"pprint", "", 0, pretty},
    {"wordwrap", "width,break_long_words,wrapstring,break_on_hyphens", 0, word_wrap},
    {"random", "", 0, random_filter},
};

}  // namespace

Table value_filters() { return {kRows, std::size(kRows)}; }

}  // namespace isotope::text::jinja
