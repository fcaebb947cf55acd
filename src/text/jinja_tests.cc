// The tests behind `is`.
#include "text/jinja_call.h"
#include "text/jinja_repr.h"
#include "text/jinja_vm.h"

namespace isotope::text::jinja {
namespace {

template <Kind kind>
Value is_kind(Vm&, const Value* a) { return Value::boolean(a[0].is(kind)); }

Value defined(Vm&, const Value* a) { return Value::boolean(!a[0].is(Kind::undefined)); }
Value is_true(Vm&, const Value* a) { return Value::boolean(a[0].is(Kind::boolean) && a[0].as_int()); }
Value is_false(Vm&, const Value* a) { return Value::boolean(a[0].is(Kind::boolean) && !a[0].as_int()); }
Value integer(Vm&, const Value* a) { return Value::boolean(a[0].is(Kind::integer) || a[0].is(Kind::big)); }
Value number(Vm&, const Value* a) { return Value::boolean(a[0].is_number()); }
Value callable(Vm&, const Value* a) { return Value::boolean(is_callable(a[0])); }
Value iterable(Vm&, const Value* a) { return Value::boolean(is_iterable(a[0])); }
Value escaped(Vm&, const Value* a) { return Value::boolean(a[0].is(Kind::string) && str(a[0]).markup); }

// Has a length and can be indexed. Undefined has both, with errors behind them.
Value sequence(Vm&, const Value* a) {
  const Kind k = a[0].kind();
  return Value::boolean(k == Kind::string || k == Kind::bytes || k == Kind::list || k == Kind::tuple || k == Kind::dict ||
                        k == Kind::range || k == Kind::undefined);
}

Value remainder(Vm& vm, const Value& v, const Value& by) {
  return v.is(Kind::string) ? format_percent(vm, str(v), by) : arithmetic(vm.b, Op::mod, v, by);
}

template <int rest>
Value parity(Vm& vm, const Value* a) {
  return Value::boolean(equal(vm.b, remainder(vm, a[0], Value::integer(2)), Value::integer(rest)));
}

Value divisible(Vm& vm, const Value* a) { return Value::boolean(equal(vm.b, remainder(vm, a[0], a[1]), Value::integer(0))); }

template <bool upper>
Value case_test(Vm& vm, const Value* a) {
  Args none;
  return vm.call(vm.attribute(to_str(vm.b, a[0]), upper ? "isupper" : "islower"), none);
}

Value same_as(Vm&, const Value* a) { return Value::boolean(same(a[0], a[1])); }
Value in(Vm& vm, const Value* a) { return Value::boolean(contains(vm.b, a[0], a[1])); }
Value is_filter(Vm&, const Value* a) { return Value::boolean(a[0].is(Kind::string) && find_filter(text(a[0]))); }
Value is_test(Vm&, const Value* a) { return Value::boolean(a[0].is(Kind::string) && find_test(text(a[0]))); }

Value eq(Vm& vm, const Value* a) { return Value::boolean(equal(vm.b, a[0], a[1])); }
Value ne(Vm& vm, const Value* a) { return Value::boolean(!equal(vm.b, a[0], a[1])); }
Value lt(Vm& vm, const Value* a) { return Value::boolean(less(vm.b, a[0], a[1], "<")); }
Value le(Vm& vm, const Value* a) { return Value::boolean(less(vm.b, a[0], a[1], "<=")); }
Value gt(Vm& vm, const Value* a) { return Value::boolean(less(vm.b, a[0], a[1], ">")); }
Value ge(Vm& vm, const Value* a) { return Value::boolean(less(vm.b, a[0], a[1], ">=")); }

constexpr Row kRows[] = {
    {"defined", "", 0, defined},
    {"undefined", "", 0, is_kind<Kind::undefined>},
    {"none", "", 0, is_kind<Kind::none>},
    {"string", "", 0, is_kind<Kind::string>},
    {"mapping", "", 0, is_kind<Kind::dict>},
    {"boolean", "", 0, is_kind<Kind::boolean>},
    {"float", "", 0, is_kind<Kind::real>},
    {"true", "", 0, is_true},
    {"false", "", 0, is_false},
    {"integer", "", 0, integer},
    {"number", "", 0, number},
    {"sequence", "", 0, sequence},
    {"iterable", "", 0, iterable},
    {"callable", "", 0, callable},
    {"escaped", "", 0, escaped},
    {"odd", "", 0, parity<1>},
    {"even", "", 0, parity<0>},
    {"divisibleby", "num", 1, divisible},
    {"lower", "", 0, case_test<false>},
    {"upper", "", 0, case_test<true>},
    {"sameas", "other", 1, same_as},
    {"in", "seq", 1, in},
    {"filter", "", 0, is_filter},
    {"test", "", 0, is_test},
    {"==", "other", 1, eq}, {"eq", "other", 1, eq}, {"equalto", "other", 1, eq},
    {"!=", "other", 1, ne}, {"ne", "other", 1, ne},
    {"<", "other", 1, lt}, {"lt", "other", 1, lt}, {"lessthan", "other", 1, lt},
    {"<=", "other", 1, le}, {"le", "other", 1, le},
    {">", "other", 1, gt}, {"gt", "other", 1, gt}, {"greaterthan", "other", 1, gt},
    {">=", "other", 1, ge}, {"ge", "other", 1, ge},
};

}  // namespace

const Row* find_test(std::string_view name) {
  for (const Row& r : kRows)
    if (r.name == name) return &r;
  return nullptr;
}

}  // namespace isotope::text::jinja
