// Equality, order and iteration, with Python's rules between types.
#include <algorithm>
#include <cmath>

#include "text/jinja_unicode.h"
#include "text/jinja_value.h"
#include "text/jinja_vm.h"

namespace isotope::text::jinja {
namespace {

// Exact: a double may lie between two int64 that round to it.
int compare_int_real(int64_t i, double d) {
  if (d >= 9223372036854775808.0) return -1;
  if (d < -9223372036854775808.0) return 1;
  const auto whole = static_cast<int64_t>(d);
  if (i != whole) return i < whole ? -1 : 1;
  const double rest = d - static_cast<double>(whole);
  return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

int compare_big(const std::string& x, const std::string& y) {
  const bool nx = x[0] == '-', ny = y[0] == '-';
  if (nx != ny) return nx ? -1 : 1;
  const int c = x.size() != y.size() ? (x.size() < y.size() ? -1 : 1) : x.compare(y);
  return nx ? -c : c;
}

constexpr int kUnordered = 2;

// -1, 0, 1, or kUnordered when a NaN takes part.
int compare_numbers(const Value& x, const Value& y) {
  if (x.is(Kind::big) || y.is(Kind::big)) {
    const auto digits = [](const Value& v) {
      if (v.is(Kind::real)) {
        const Value whole = make_number(std::isfinite(v.as_real()) ? v.as_real() : 0);
        return whole.is(Kind::big) ? whole.as<BigInt>().digits : std::to_string(whole.as_int());
      }
      return v.is(Kind::big) ? v.as<BigInt>().digits : std::to_string(v.as_int());
    };
    if (x.is(Kind::real) && !std::isfinite(x.as_real())) return std::isnan(x.as_real()) ? kUnordered : x.as_real() < 0 ? -1 : 1;
    if (y.is(Kind::real) && !std::isfinite(y.as_real())) return std::isnan(y.as_real()) ? kUnordered : y.as_real() < 0 ? 1 : -1;
    return compare_big(digits(x), digits(y));
  }
  if (x.is_int() && y.is_int()) return x.as_int() < y.as_int() ? -1 : x.as_int() > y.as_int();
  if (std::isnan(x.as_real()) || std::isnan(y.as_real())) return kUnordered;
  if (x.is_int()) return compare_int_real(x.as_int(), y.as_real());
  if (y.is_int()) return -compare_int_real(y.as_int(), x.as_real());
  return x.as_real() < y.as_real() ? -1 : x.as_real() > y.as_real();
}

bool equal_items(Budget& b, const std::vector<Value>& x, const std::vector<Value>& y) {
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i)
    if (!same(x[i], y[i]) && !equal(b, x[i], y[i])) return false;
  return true;
}

bool equal_dicts(Budget& b, const Dict& x, const Dict& y) {
  if (x.size() != y.size()) return false;
  for (const auto& [k, v] : x.items()) {
    const Value* other = y.find(b, k);
    if (!other || (!same(v, *other) && !equal(b, v, *other))) return false;
  }
  return true;
}

bool equal_ranges(const RangeObject& x, const RangeObject& y) {
  const int64_t n = x.size();
  return n == y.size() && (n == 0 || (x.start == y.start && (n == 1 || x.step == y.step)));
}

struct SeqIter final : Iter {
  explicit SeqIter(std::shared_ptr<Seq> s) : seq(std::move(s)) {}
  bool next(Value& out) override { return i < seq->items.size() ? (out = seq->items[i++], true) : false; }
  std::shared_ptr<Seq> seq;
  size_t i = 0;
};

struct DictIter final : Iter {
  DictIter(Budget& budget, std::shared_ptr<Dict> d, int w) : b(budget), dict(std::move(d)), what(w) {}
  bool next(Value& out) override {
    if (i >= dict->size()) return false;
    const auto& [k, v] = dict->items()[i++];
    out = what == View::keys ? k : what == View::values ? v : make_tuple(b, {k, v});
    return true;
  }
  Budget& b;
  std::shared_ptr<Dict> dict;
  int what;
  size_t i = 0;
};

struct RangeIter final : Iter {
  explicit RangeIter(const RangeObject& r) : at(r.start), step(r.step), left(r.size()) {}
  bool next(Value& out) override {
    if (left-- <= 0) return left = 0, false;
    out = Value::integer(at);
    if (left > 0) at += step;
    return true;
  }
  int64_t at, step, left;
};

struct StrIter final : Iter {
  StrIter(Budget& budget, std::shared_ptr<Str> s) : b(budget), string(std::move(s)) {}
  bool next(Value& out) override {
    if (i >= string->text.size()) return false;
    const size_t from = i;
    next_point(string->text, i);
    out = substring(b, *string, from, i);
    return true;
  }
  Budget& b;
  std::shared_ptr<Str> string;
  size_t i = 0;
};

struct BytesIter final : Iter {
  explicit BytesIter(std::string d) : data(std::move(d)) {}
  bool next(Value& out) override {
    return i < data.size() ? (out = Value::integer(static_cast<unsigned char>(data[i++])), true) : false;
  }
  std::string data;
  size_t i = 0;
};

}  // namespace

bool same(const Value& x, const Value& y) {
  if (x.kind() != y.kind()) return false;
  switch (x.kind()) {
    case Kind::missing: case Kind::none: return true;
    case Kind::boolean: case Kind::integer: return x.as_int() == y.as_int();
    case Kind::real: return x.as_real() == y.as_real();
    case Kind::string: return x.object() == y.object() || text(x) == text(y);  // CPython interns; equal text is the nearest rule
    default: return x.object() == y.object();
  }
}

bool equal(Budget& b, const Value& x, const Value& y) {
  b.charge(1);
  if (x.is_number() && y.is_number()) return compare_numbers(x, y) == 0;
  if (x.kind() != y.kind()) return false;
  switch (x.kind()) {
    case Kind::missing: case Kind::undefined: case Kind::none: return true;
    case Kind::string: return text(x).size() == text(y).size() && (b.charge(text(x).size() / 256), text(x) == text(y));
    case Kind::bytes: return x.as<Bytes>().data == y.as<Bytes>().data;
    case Kind::list: case Kind::tuple: return x.object() == y.object() || equal_items(b, x.as<Seq>().items, y.as<Seq>().items);
    case Kind::dict: return x.object() == y.object() || equal_dicts(b, x.as<Dict>(), y.as<Dict>());
    case Kind::range: return equal_ranges(x.as<RangeObject>(), y.as<RangeObject>());
    default: return x.object() == y.object();
  }
}

bool less(Budget& b, const Value& x, const Value& y, const char* op) {
  b.charge(1);
  const bool or_equal = op[1] == '=';
  const auto verdict = [&](int c) { return op[0] == '<' ? c < 0 || (or_equal && c == 0) : c > 0 || (or_equal && c == 0); };
  if (x.is(Kind::undefined)) raise_undefined(x);
  if (y.is(Kind::undefined)) raise_undefined(y);
  if (x.is_number() && y.is_number()) {
    const int c = compare_numbers(x, y);
    return c != kUnordered && verdict(c);
  }
  if (x.kind() == y.kind()) {
    if (x.is(Kind::string))
      return b.charge(std::min(text(x).size(), text(y).size()) / 256),
             verdict(text(x).compare(text(y)));  // UTF-8 sorts as code points do
    if (x.is(Kind::bytes)) return verdict(x.as<Bytes>().data.compare(y.as<Bytes>().data));
    if (x.is(Kind::list) || x.is(Kind::tuple)) {
      const auto &p = x.as<Seq>().items, &q = y.as<Seq>().items;
      for (size_t i = 0; i < p.size() && i < q.size(); ++i)
        if (!same(p[i], q[i]) && !equal(b, p[i], q[i])) return less(b, p[i], q[i], op);
      return verdict(p.size() < q.size() ? -1 : p.size() > q.size());
    }
  }
  raise(Fault::type,
        std::string("'") + op + "' not supported between instances of '" + type_name(x) + "' and '" + type_name(y) + "'");
}

std::shared_ptr<Iter> iterate(Budget& b, const Value& v) {
  switch (v.kind()) {
    case Kind::undefined: return std::make_shared<BytesIter>(std::string());
    case Kind::string: return std::make_shared<StrIter>(b, v.shared<Str>());
    case Kind::bytes: return std::make_shared<BytesIter>(v.as<Bytes>().data);
    case Kind::list: case Kind::tuple: return std::make_shared<SeqIter>(v.shared<Seq>());
    case Kind::dict: return std::make_shared<DictIter>(b, v.shared<Dict>(), View::keys);
    case Kind::view: return std::make_shared<DictIter>(b, v.as<View>().dict, v.as<View>().what);
    case Kind::range: return std::make_shared<RangeIter>(v.as<RangeObject>());
    case Kind::iterator: return v.shared<Iter>();
    case Kind::loop: raise(Fault::unsupported, "iterating over 'loop' itself is not supported");
    default: raise(Fault::type, std::string("'") + type_name(v) + "' object is not iterable");
  }
}

bool is_iterable(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::bytes:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::view:
    case Kind::range:
    case Kind::iterator: case Kind::loop: return true;
    default: return false;
  }
}

std::vector<Value> collect(Budget& b, const Value& v) {
  if (v.is(Kind::list) || v.is(Kind::tuple)) {
    b.check_items(v.as<Seq>().items.size());
    return v.as<Seq>().items;
  }
  std::vector<Value> out;
  const auto it = iterate(b, v);
  for (Value x; it->next(x);) {
    b.charge(1);
    if (out.size() >= b.max_items) b.check_items(out.size() + 1);
    out.push_back(std::move(x));
  }
  return out;
}

// A merge sort of our own: a comparison may throw, and with NaN it is no order at all.
void sort_by(Budget& b, std::vector<std::pair<Value, Value>>& v, bool reverse) {
  const auto before = [&](const Value& x, const Value& y) { return reverse ? less(b, y, x) : less(b, x, y); };
  std::vector<std::pair<Value, Value>> other(v.size());
  for (size_t width = 1; width < v.size(); width *= 2) {
    for (size_t lo = 0; lo < v.size(); lo += 2 * width) {
      const size_t mid = std::min(lo + width, v.size()), hi = std::min(lo + 2 * width, v.size());
      size_t i = lo, j = mid, k = lo;
      while (i < mid && j < hi) {
        const bool right = before(v[j].first, v[i].first);
        other[k++] = std::move(right ? v[j++] : v[i++]);
      }
      while (i < mid) other[k++] = std::move(v[i++]);
      while (j < hi) other[k++] = std::move(v[j++]);
    }
    v.swap(other);
  }
}

}  // namespace isotope::text::jinja
