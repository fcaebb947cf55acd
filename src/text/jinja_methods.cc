// Attributes and methods of everything but str, and what the sandbox forbids.
#include <algorithm>
#include <cmath>

#include "text/jinja_call.h"
#include "text/jinja_number.h"
#include "text/jinja_repr.h"
#include "text/jinja_vm.h"

namespace isotope::text::jinja {
namespace {

// ---- dict
template <int what>
Value dict_view(Vm&, const Value* a) {
  auto v = std::make_shared<View>();
  v->what = static_cast<decltype(v->what)>(what);
  v->dict = a[0].shared<Dict>();
  v->depth = a[0].depth();
  return {Kind::view, std::move(v)};
}

Value dict_get(Vm& vm, const Value* a) {
  const Value* found = a[0].as<Dict>().find(vm.b, a[1]);
  return found ? *found : given(a[2]) ? a[2] : Value::none();
}

Value copied(Vm&, const Value* a) { return a[0]; }  // nothing can change it, so the copy cannot be told apart

Value dict_from_keys(Vm& vm, const Value* a) {
  auto d = std::make_shared<Dict>();
  for (const Value& k : collect(vm.b, a[1])) d->set(vm.b, k, given(a[2]) ? a[2] : Value::none());
  return make_dict(vm.b, std::move(d));
}

constexpr Row kDictMethods[] = {
    {"items", "", 0, dict_view<View::pairs>},
    {"keys", "", 0, dict_view<View::keys>},
    {"values", "", 0, dict_view<View::values>},
    {"get", "key,default", 1, dict_get, nullptr, true},
    {"copy", "", 0, copied},
    {"fromkeys", "iterable,value", 1, dict_from_keys, nullptr, true},
};

// ---- list, tuple, range
Value seq_count(Vm& vm, const Value* a) {
  int64_t n = 0;
  const auto it = iterate(vm.b, a[0]);
  for (Value v; it->next(v);) n += same(v, a[1]) || equal(vm.b, v, a[1]);
  return Value::integer(n);
}

Value seq_index(Vm& vm, const Value* a) {
  const auto n = static_cast<int64_t>(length(a[0]));
  const auto clip = [&](int64_t i) { return i < 0 ? std::max<int64_t>(i + n, 0) : std::min(i, n); };
  const int64_t from = clip(int_arg(a[2], "start", 0)), to = clip(int_arg(a[3], "stop", n));
  const std::vector<Value> items = collect(vm.b, a[0]);
  for (int64_t i = from; i < to; ++i)
    if (same(items[static_cast<size_t>(i)], a[1]) || equal(vm.b, items[static_cast<size_t>(i)], a[1])) return Value::integer(i);
  if (a[0].is(Kind::tuple)) raise(Fault::value, "tuple.index(x): x not in tuple");
  raise(Fault::value, repr_text(a[1]) + " is not in " + (a[0].is(Kind::range) ? "range" : "list"));
}

constexpr Row kSeqMethods[] = {{"count", "value", 1, seq_count, nullptr, true},
                               {"index", "value,start,stop", 1, seq_index, nullptr, true},
                               {"copy", "", 0, copied}};

// ---- numbers
Value int_bits(Vm&, const Value* a) {
  const int64_t i = int_arg(a[0], "the number");
  uint64_t m = i < 0 ? ~static_cast<uint64_t>(i) + 1 : static_cast<uint64_t>(i);
  int64_t n = 0;
  for (; m; m >>= 1) ++n;
  return Value::integer(n);
}
Value int_ones(Vm&, const Value* a) {
  const int64_t i = int_arg(a[0], "the number");
  return Value::integer(__builtin_popcountll(i < 0 ? ~static_cast<uint64_t>(i) + 1 : static_cast<uint64_t>(i)));
}
Value itself(Vm&, const Value* a) { return positive(a[0]); }
Value is_whole(Vm&, const Value* a) {
  return Value::boolean(std::isfinite(a[0].as_real()) && a[0].as_real() == std::floor(a[0].as_real()));
}

constexpr Row kIntMethods[] = {{"bit_length", "", 0, int_bits}, {"bit_count", "", 0, int_ones}, {"conjugate", "", 0, itself}};
constexpr Row kRealMethods[] = {{"is_integer", "", 0, is_whole}, {"conjugate", "", 0, itself}};

// ---- bytes
Value bytes_decode(Vm& vm, const Value* a) { return make_string(vm.b, a[0].as<Bytes>().data, true); }
constexpr Row kBytesMethods[] = {{"decode", "encoding,errors", 0, bytes_decode}};

// ---- Markup
Value markup_striptags(Vm& vm, const Value* a) {
  Args none;
  return vm.call_filter("striptags", a[0], none);
}
constexpr Row kMarkupMethods[] = {{"striptags", "", 0, markup_striptags}};

// ---- loop, cycler
Value loop_cycle(Vm&, const Value& self, Args& args) {
  if (args.positional.empty()) raise(Fault::type, "no items for cycling given");
  return args.positional[static_cast<size_t>(self.as<Loop>().index0) % args.positional.size()];
}

Value loop_changed(Vm& vm, const Value& self, Args& args) {
  Loop& l = self.as<Loop>();
  Value now = make_tuple(vm.b, args.positional);
  if (given(l.last_changed) && equal(vm.b, l.last_changed, now)) return Value::boolean(false);
  l.last_changed = std::move(now);
  return Value::boolean(true);
}

Value cycler_next(Vm&, const Value* a) {
  Cycler& c = a[0].as<Cycler>();
  const Value v = c.items[c.pos];
  c.pos = (c.pos + 1) % c.items.size();
  return v;
}
Value cycler_reset(Vm&, const Value* a) {
  a[0].as<Cycler>().pos = 0;
  return Value::none();
}

constexpr Row kLoopMethods[] = {{"cycle", "", 0, nullptr, loop_cycle}, {"changed", "", 0, nullptr, loop_changed}};
constexpr Row kCyclerMethods[] = {{"next", "", 0, cycler_next}, {"reset", "", 0, cycler_reset}};

template <size_t N>
const Row* search(const Row (&rows)[N], std::string_view name) {
  for (const Row& r : rows)
    if (r.name == name) return &r;
  return nullptr;
}

Value loop_attribute(const Value& v, std::string_view name) {
  Loop& l = v.as<Loop>();
  const auto total = [&] { return static_cast<int64_t>(l.length()); };
  if (name == "index0") return Value::integer(l.index0);
  if (name == "index") return Value::integer(l.index0 + 1);
  if (name == "first") return Value::boolean(l.index0 == 0);
  if (name == "last") return Value::boolean(!given(l.peek()));
  if (name == "length") return Value::integer(total());
  if (name == "revindex") return Value::integer(total() - l.index0);
  if (name == "revindex0") return Value::integer(total() - l.index0 - 1);
  if (name == "depth") return Value::integer(l.depth0 + 1);
  if (name == "depth0") return Value::integer(l.depth0);
  if (name == "previtem") return l.index0 == 0 ? make_hint("there is no previous item") : l.before;
  if (name == "nextitem") return given(l.peek()) ? l.peek() : make_hint("there is no next item");
  return {};
}

Value macro_attribute(Vm& vm, const Macro& m, std::string_view name) {
  if (name == "name") return m.anonymous() ? Value::none() : make_string(vm.b, m.name());
  if (name == "catch_kwargs") return Value::boolean(m.stmt->kwargs_slot >= 0);
  if (name == "catch_varargs") return Value::boolean(m.stmt->varargs_slot >= 0);
  if (name == "caller") return Value::boolean(m.stmt->caller_slot >= 0);
  if (name != "arguments") return {};
  std::vector<Value> names;
  for (const Target& t : m.stmt->targets) names.push_back(make_string(vm.b, t.name));
  return make_tuple(vm.b, std::move(names));
}

Value data_attribute(Vm& vm, const Value& v, std::string_view name) {
  switch (v.kind()) {
    case Kind::boolean: case Kind::integer: case Kind::big:
      if (name == "real" || name == "numerator") return positive(v);
      if (name == "imag") return Value::integer(0);
      return name == "denominator" ? Value::integer(1) : Value();
    case Kind::real: return name == "real" ? v : name == "imag" ? Value::real(0) : Value();
    case Kind::tuple:
      if (!v.as<Seq>().group) return {};
      return name == "grouper" ? v.as<Seq>().items[0] : name == "list" ? v.as<Seq>().items[1] : Value();
    case Kind::range: {
      const auto& r = v.as<RangeObject>();
      return name == "start"  ? Value::integer(r.start)
             : name == "stop" ? Value::integer(r.stop)
             : name == "step" ? Value::integer(r.step)
                              : Value();
    }
    case Kind::space: {
      const Value* found = v.as<Space>().attributes.find(name);
      return found ? *found : Value();
    }
    case Kind::loop: return loop_attribute(v, name);
    case Kind::macro: return macro_attribute(vm, v.as<Macro>(), name);
    case Kind::cycler: {
      const Cycler& c = v.as<Cycler>();
      return name == "current" ? c.items[c.pos] : name == "pos" ? Value::integer(static_cast<int64_t>(c.pos)) : Value();
    }
    default: return {};
  }
}

// What ImmutableSandboxedEnvironment keeps templates from calling.
bool changes_container(const Value& v, std::string_view name) {
  static constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::string_view kList[] = {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"};
  if (v.is(Kind::dict)) return std::find(std::begin(kDict), std::end(kDict), name) != std::end(kDict);
  return v.is(Kind::list) && std::find(std::begin(kList), std::end(kList), name) != std::end(kList);
}

// Attributes every Python object has; the sandbox hides them, an item of that name stays unreachable by dot.
bool is_python_internal(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "__class__",        "__delattr__",  "__dir__",          "__doc__",     "__eq__",        "__format__",        "__ge__",
      "__getattribute__", "__getstate__", "__gt__",           "__hash__",    "__init__",      "__init_subclass__", "__le__",
      "__lt__",           "__ne__",       "__new__",          "__reduce__",  "__reduce_ex__", "__repr__",          "__setattr__",
      "__sizeof__",       "__str__",      "__subclasshook__", "__len__",     "__iter__",      "__getitem__",       "__contains__",
      "__dict__",         "__module__",   "__call__",         "__globals__", "__code__",      "__self__",          "__func__",
      "__name__",         "__qualname__"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

Value unsafe(const Value& v, std::string_view name) {
  return make_hint("access to attribute '" + std::string(name) + "' of '" + type_name(v) + "' object is unsafe.",
                   Fault::security);
}

}  // namespace

const Row* find_method(const Value& v, std::string_view name) {
  switch (v.kind()) {
    case Kind::string: {
      const Table t = string_methods();
      const Row* r = std::find_if(t.rows, t.rows + t.size, [&](const Row& x) { return x.name == name; });
      if (r != t.rows + t.size) return r;
      return str(v).markup ? search(kMarkupMethods, name) : nullptr;
    }
    case Kind::dict: return search(kDictMethods, name);
    case Kind::list: return search(kSeqMethods, name);
    case Kind::tuple: case Kind::range: return name == "copy" ? nullptr : search(kSeqMethods, name);
    case Kind::boolean: case Kind::integer: case Kind::big: return search(kIntMethods, name);
    case Kind::real: return search(kRealMethods, name);
    case Kind::bytes: return search(kBytesMethods, name);
    case Kind::loop: return search(kLoopMethods, name);
    case Kind::cycler: return search(kCyclerMethods, name);
    case Kind::function:
      return v.as<Function>().name == "dict" && name == "fromkeys" && !given(v.as<Function>().self) ? search(kDictMethods, name)
                                                                                                    : nullptr;
    default: return nullptr;
  }
}

Value find_attribute(Vm& vm, const Value& v, std::string_view name) {
  if (v.is(Kind::undefined)) {
    if (is_python_internal(name)) return unsafe(v, name);
    raise_undefined(v);
  }
  if (!name.empty() && name[0] == '_') return is_python_internal(name) ? unsafe(v, name) : Value();
  if (changes_container(v, name)) return unsafe(v, name);
  if (Value data = data_attribute(vm, v, name); given(data)) return data;
  const Row* row = find_method(v, name);
  return row ? make_function(*row, v) : Value();
}

}  // namespace isotope::text::jinja
