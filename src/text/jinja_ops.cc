// Operators with Python's rules. Integers have 64 bits: what does not fit is an error, never a wrapped number.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "text/jinja_repr.h"
#include "text/jinja_unicode.h"
#include "text/jinja_vm.h"

namespace isotope::text::jinja {
namespace {

const char* symbol(Op op) {
  switch (op) {
    case Op::add: return "+";
    case Op::sub: return "-";
    case Op::mul: return "*";
    case Op::div: return "/";
    case Op::floor_div: return "//";
    case Op::mod: return "%";
    default: return "** or pow()";
  }
}

[[noreturn]] void unsupported(Op op, const Value& x, const Value& y) {
  raise(Fault::type,
        std::string("unsupported operand type(s) for ") + symbol(op) + ": '" + type_name(x) + "' and '" + type_name(y) + "'");
}

[[noreturn]] void too_big() { raise(Fault::overflow, "an integer result does not fit into 64 bits"); }

int64_t int_power(int64_t base, int64_t exponent) {
  int64_t out = 1;
  while (exponent > 0) {
    if (exponent & 1 && __builtin_mul_overflow(out, base, &out)) too_big();
    exponent >>= 1;
    if (exponent && __builtin_mul_overflow(base, base, &base)) too_big();
  }
  return out;
}

Value int_arithmetic(Op op, int64_t x, int64_t y) {
  int64_t out = 0;
  switch (op) {
    case Op::add: if (__builtin_add_overflow(x, y, &out)) too_big(); return Value::integer(out);
    case Op::sub: if (__builtin_sub_overflow(x, y, &out)) too_big(); return Value::integer(out);
    case Op::mul: if (__builtin_mul_overflow(x, y, &out)) too_big(); return Value::integer(out);
    case Op::div:
      if (y == 0) raise(Fault::zero_division, "division by zero");
      return Value::real(static_cast<double>(x) / static_cast<double>(y));
    case Op::floor_div: case Op::mod: {
      if (y == 0) raise(Fault::zero_division, op == Op::mod ? "integer modulo by zero" : "integer division or modulo by zero");
      if (y == -1) return op == Op::mod ? Value::integer(0) : int_arithmetic(Op::sub, 0, x);
      const int64_t rest = x % y, fix = rest != 0 && (rest < 0) != (y < 0);
      return Value::integer(op == Op::mod ? rest + fix * y : x / y - fix);
    }
    default:
      if (y >= 0) return Value::integer(int_power(x, y));
      if (x == 0) raise(Fault::zero_division, "0.0 cannot be raised to a negative power");
      return Value::real(std::pow(static_cast<double>(x), static_cast<double>(y)));
  }
}

Value real_arithmetic(Op op, double x, double y) {
  switch (op) {
    case Op::add: return Value::real(x + y);
    case Op::sub: return Value::real(x - y);
    case Op::mul: return Value::real(x * y);
    case Op::div:
      if (y == 0) raise(Fault::zero_division, "float division by zero");
      return Value::real(x / y);
    case Op::floor_div: case Op::mod: {
      if (y == 0) raise(Fault::zero_division, op == Op::mod ? "float modulo" : "float floor division by zero");
      double rest = std::fmod(x, y), quotient = (x - rest) / y;
      if (rest != 0) {
        if ((y < 0) != (rest < 0)) rest += y, quotient -= 1;
      } else {
        rest = std::copysign(0.0, y);
      }
      if (op == Op::mod) return Value::real(rest);
      if (quotient == 0) return Value::real(std::copysign(0.0, x / y));
      double whole = std::floor(quotient);
      if (quotient - whole > 0.5) whole += 1;
      return Value::real(whole);
    }
    default: {
      if (x == 0 && y < 0) raise(Fault::zero_division, "0.0 cannot be raised to a negative power");
      if (x < 0 && std::isfinite(x) && std::isfinite(y) && y != std::floor(y))
        raise(Fault::unsupported, "complex numbers are not supported");
      const double out = std::pow(x, y);
      if (std::isinf(out) && std::isfinite(x) && std::isfinite(y))
        raise(Fault::overflow, "(34, 'Numerical result out of range')");
      return Value::real(out);
    }
  }
}

bool is_sequence(const Value& v) { return v.is(Kind::string) || v.is(Kind::list) || v.is(Kind::tuple) || v.is(Kind::bytes); }

Value repeat(Budget& b, const Value& v, const Value& times) {
  if (!times.is_int()) raise(Fault::type, std::string("can't multiply sequence by non-int of type '") + type_name(times) + "'");
  const auto n = static_cast<uint64_t>(std::max<int64_t>(times.as_int(), 0));
  if (v.is(Kind::string)) {
    const Str& s = str(v);
    if (s.text.empty()) return v;
    b.check_string(n > b.max_string ? SIZE_MAX / 2 : s.text.size() * n);
    b.charge(n / 8);
    Writer w(b);
    for (uint64_t i = 0; i < n; ++i) w.add(s);
    return w.take(s.markup);
  }
  if (v.is(Kind::bytes)) raise(Fault::unsupported, "bytes cannot be multiplied here");
  const auto& items = v.as<Seq>().items;
  if (n && items.size() > b.max_items / n) b.check_items(b.max_items + 1);
  std::vector<Value> out;
  out.reserve(items.size() * n);
  for (uint64_t i = 0; i < n; ++i) out.insert(out.end(), items.begin(), items.end());
  return v.is(Kind::list) ? make_list(b, std::move(out)) : make_tuple(b, std::move(out));
}

struct Bounds { int64_t start, stop, step, count; };

// slice.indices(): what a slice means for a sequence of n items.
Bounds bounds(const Value& start, const Value& stop, const Value& step, int64_t n) {
  const auto index = [](const Value& v, int64_t otherwise) {
    if (!given(v) || v.is(Kind::none)) return otherwise;
    if (v.is(Kind::big)) return v.as<BigInt>().digits[0] == '-' ? INT64_MIN : INT64_MAX;
    if (!v.is_int()) raise(Fault::type, "slice indices must be integers or None or have an __index__ method");
    return v.as_int();
  };
  Bounds r{};
  r.step = index(step, 1);
  if (r.step == 0) raise(Fault::value, "slice step cannot be zero");
  if (r.step == INT64_MIN) r.step = -INT64_MAX;
  const int64_t lowest = r.step < 0 ? -1 : 0, highest = r.step < 0 ? n - 1 : n;
  const auto clip = [&](int64_t i) { return i < 0 ? std::max(i + n, lowest) : std::min(i, highest); };
  r.start = clip(index(start, r.step < 0 ? INT64_MAX : 0));
  const bool open = !given(stop) || stop.is(Kind::none);
  r.stop = open ? (r.step < 0 ? -1 : n) : clip(index(stop, 0));
  if (r.step > 0) r.count = r.stop > r.start ? (r.stop - r.start - 1) / r.step + 1 : 0;
  else r.count = r.stop < r.start ? (r.start - r.stop - 1) / -r.step + 1 : 0;
  return r;
}

Value slice_string(Budget& b, const Str& s, const Bounds& r) {
  b.charge(1 + s.text.size() / 256);
  if (r.count == 0) return substring(b, s, 0, 0);
  if (r.step == 1) {
    const size_t from = s.offset(static_cast<size_t>(r.start));
    return substring(b, s, from, s.ascii() ? static_cast<size_t>(r.stop) : s.offset(static_cast<size_t>(r.stop)));
  }
  std::vector<uint32_t> offsets;
  offsets.reserve(s.points + 1);
  b.charge(s.points / 16);
  for (size_t i = 0; i < s.text.size();) offsets.push_back(static_cast<uint32_t>(i)), next_point(s.text, i);
  offsets.push_back(static_cast<uint32_t>(s.text.size()));
  Writer w(b);
  for (int64_t k = 0; k < r.count; ++k) {
    const auto i = static_cast<size_t>(r.start + k * r.step);
    w.add(s, offsets[i], offsets[i + 1]);
  }
  return w.take(s.markup);
}

}  // namespace

Value add(Budget& b, const Value& x, const Value& y) {
  if (x.is(Kind::undefined)) raise_undefined(x);
  if (y.is(Kind::undefined)) raise_undefined(y);
  if (x.is(Kind::string) && y.is(Kind::string)) {
    const bool markup = str(x).markup || str(y).markup;
    Writer w(b);
    w.reserve(text(x).size() + text(y).size());
    w.add(str(markup ? escape_html(b, x) : x));
    w.add(str(markup ? escape_html(b, y) : y));
    return w.take(markup);
  }
  if ((x.is(Kind::list) || x.is(Kind::tuple)) && x.kind() == y.kind()) {
    std::vector<Value> items = x.as<Seq>().items;
    b.check_items(items.size() + y.as<Seq>().items.size());
    items.insert(items.end(), y.as<Seq>().items.begin(), y.as<Seq>().items.end());
    return x.is(Kind::list) ? make_list(b, std::move(items)) : make_tuple(b, std::move(items));
  }
  if (is_sequence(x) && !x.is(Kind::bytes)) {
    const std::string name = type_name(x);
    raise(Fault::type, "can only concatenate " + name + " (not \"" + type_name(y) + "\") to " + name);
  }
  return arithmetic(b, Op::add, x, y);
}

Value arithmetic(Budget& b, Op op, const Value& x, const Value& y) {
  if (x.is(Kind::undefined)) raise_undefined(x);
  if (y.is(Kind::undefined)) raise_undefined(y);
  if (x.is_number() && y.is_number()) {
    if (x.is_int() && y.is_int()) return int_arithmetic(op, x.as_int(), y.as_int());
    if (x.is(Kind::big) || y.is(Kind::big))
      raise(Fault::overflow, "integers beyond 64 bits can be printed and compared, not computed with");
    return real_arithmetic(op, x.as_real(), y.as_real());
  }
  if (op == Op::mul && is_sequence(x)) return repeat(b, x, y);
  if (op == Op::mul && is_sequence(y)) return repeat(b, y, x);
  unsupported(op, x, y);
}

Value negative(const Value& v) {
  if (v.is(Kind::undefined)) raise_undefined(v);
  if (v.is(Kind::real)) return Value::real(-v.as_real());
  if (v.is_int()) return int_arithmetic(Op::sub, 0, v.as_int());
  if (v.is(Kind::big)) {
    const std::string& d = v.as<BigInt>().digits;
    if (d == "9223372036854775808") return Value::integer(INT64_MIN);
    return make_big(d[0] == '-' ? d.substr(1) : "-" + d);
  }
  raise(Fault::type, std::string("bad operand type for unary -: '") + type_name(v) + "'");
}

Value positive(const Value& v) {
  if (v.is(Kind::undefined)) raise_undefined(v);
  if (v.is(Kind::boolean)) return Value::integer(v.as_int());
  if (v.is_number()) return v;
  raise(Fault::type, std::string("bad operand type for unary +: '") + type_name(v) + "'");
}

bool contains(Budget& b, const Value& item, const Value& container) {
  switch (container.kind()) {
    case Kind::string: {
      if (!item.is(Kind::string))
        raise(Fault::type, std::string("'in <string>' requires string as left operand, not ") + type_name(item));
      const std::string_view hay = text(container), needle = text(item);
      b.charge(1 + hay.size() / 64);
      return needle.empty() || memmem(hay.data(), hay.size(), needle.data(), needle.size()) != nullptr;
    }
    case Kind::dict: return container.as<Dict>().find(b, item) != nullptr;
    case Kind::list: case Kind::tuple:
      for (const Value& v : container.as<Seq>().items)
        if (same(v, item) || equal(b, v, item)) return true;
      return false;
    case Kind::view: case Kind::range: case Kind::iterator: case Kind::undefined: {
      const auto it = iterate(b, container);
      for (Value v; it->next(v);)
        if (same(v, item) || equal(b, v, item)) return true;
      return false;
    }
    default: raise(Fault::type, std::string("argument of type '") + type_name(container) + "' is not iterable");
  }
}

Value slice(Budget& b, const Value& v, const Value& start, const Value& stop, const Value& step) {
  switch (v.kind()) {
    case Kind::undefined: raise_undefined(v);
    case Kind::string: return slice_string(b, str(v), bounds(start, stop, step, static_cast<int64_t>(str(v).points)));
    case Kind::list: case Kind::tuple: {
      const auto& items = v.as<Seq>().items;
      const Bounds r = bounds(start, stop, step, static_cast<int64_t>(items.size()));
      std::vector<Value> out;
      out.reserve(static_cast<size_t>(r.count));
      for (int64_t k = 0; k < r.count; ++k) out.push_back(items[static_cast<size_t>(r.start + k * r.step)]);
      return v.is(Kind::list) ? make_list(b, std::move(out)) : make_tuple(b, std::move(out));
    }
    case Kind::range: {
      const auto& range = v.as<RangeObject>();
      const Bounds r = bounds(start, stop, step, range.size());
      auto out = std::make_shared<RangeObject>();
      out->start = range.start + r.start * range.step;
      out->step = range.step * (r.count > 1 ? r.step : 1);  // cannot overflow: at least two items lie a step apart
      if (__builtin_add_overflow(out->start, r.count * out->step, &out->stop)) out->stop = out->step > 0 ? INT64_MAX : INT64_MIN;
      return {Kind::range, std::move(out)};
    }
    case Kind::dict: raise(Fault::type, "unhashable type: 'slice'");
    default: raise(Fault::type, std::string("'") + type_name(v) + "' object is not subscriptable");
  }
}

Value subscript(Budget& b, const Value& v, const Value& key) {
  const auto index = [&](size_t size) -> int64_t {
    if (!key.is_int()) return -1;
    const int64_t i = key.as_int() < 0 ? key.as_int() + static_cast<int64_t>(size) : key.as_int();
    return i < static_cast<int64_t>(size) ? i : -1;
  };
  switch (v.kind()) {
    case Kind::undefined: raise_undefined(v);
    case Kind::dict: {
      try {
        const Value* found = v.as<Dict>().find(b, key);
        return found ? *found : Value();
      } catch (const Failure& f) {
        if (f.fault == Fault::type) return {};  // unhashable
        throw;
      }
    }
    case Kind::list: case Kind::tuple: {
      const int64_t i = index(v.as<Seq>().items.size());
      return i < 0 ? Value() : v.as<Seq>().items[static_cast<size_t>(i)];
    }
    case Kind::string: {
      const Str& s = str(v);
      const int64_t i = index(s.points);
      if (i < 0) return {};
      b.charge(s.ascii() ? 1 : 1 + s.text.size() / 256);
      size_t end = s.offset(static_cast<size_t>(i));
      const size_t from = end;
      next_point(s.text, end);
      return substring(b, s, from, end);
    }
    case Kind::range: {
      const auto& r = v.as<RangeObject>();
      const int64_t i = index(static_cast<size_t>(r.size()));
      return i < 0 ? Value() : Value::integer(r.start + i * r.step);
    }
    case Kind::bytes: {
      const int64_t i = index(v.as<Bytes>().data.size());
      return i < 0 ? Value() : Value::integer(static_cast<unsigned char>(v.as<Bytes>().data[static_cast<size_t>(i)]));
    }
    default: return {};
  }
}

}  // namespace isotope::text::jinja
