// Expressions.
#include <algorithm>
#include <utility>

#include "text/jinja_repr.h"
#include "text/jinja_vm.h"

namespace isotope::text::jinja {

namespace {

bool is_constant(const Expr& e) {
  if (e.op == Op::name || e.op == Op::call || e.args) return false;
  return std::all_of(e.kids.begin(), e.kids.end(), [](const ExprPtr& k) { return !k || is_constant(*k); });
}

}  // namespace

Value Vm::eval(const Expr& e, Frame& f) {
  const Nest nest(*this);
  switch (e.op) {
    case Op::constant: return e.constant;
    case Op::name: return eval_name(e, f);
    case Op::list: case Op::tuple: return eval_items(e, f);
    case Op::dict: return eval_dict(e, f);
    case Op::attribute: {
      const Value v = eval(*e.kids[0], f);
      at(e);
      return attribute(v, e.name);
    }
    case Op::item: return eval_item(e, f);
    case Op::slice: at(e); raise(Fault::type, "slices cannot be combined with other indexes");
    case Op::call: return eval_call(e, f);
    case Op::filter: return eval_filter(e, f, nullptr);
    case Op::test: return eval_test(e, f);
    case Op::conditional: return eval_conditional(e, f);
    case Op::all: case Op::any: {
      Value v;
      for (const ExprPtr& k : e.kids) {
        v = eval(*k, f);
        if (truth(v) == (e.op == Op::any)) break;
      }
      return v;
    }
    case Op::negate: return Value::boolean(!truth(eval(*e.kids[0], f)));
    case Op::plus: case Op::minus: return eval_unary(e, f);
    case Op::concat: return eval_concat(e, f);
    case Op::compare: return eval_compare(e, f);
    default: return eval_binary(e, f);
  }
}

Value Vm::eval_name(const Expr& e, Frame& f) {
  const Value& v = outward(f, e.slot.hops).slots[e.slot.index];
  return given(v) ? v : make_undefined(e.name);
}

Value Vm::eval_conditional(const Expr& e, Frame& f) {
  if (truth(eval(*e.kids[0], f))) return eval(*e.kids[1], f);
  if (e.kids[2]) return eval(*e.kids[2], f);
  const auto end = program_.source.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(e.pos, program_.source.size()));
  const auto line = std::count(program_.source.begin(), end, '\n') + 1;
  b.charge(e.pos / 256);
  return make_hint("the inline if-expression on line " + std::to_string(line) +
                   " evaluated to false and no else section was defined.");
}

Value Vm::eval_items(const Expr& e, Frame& f) {
  std::vector<Value> items;
  items.reserve(e.kids.size());
  for (const ExprPtr& k : e.kids) items.push_back(eval(*k, f));
  at(e);
  return e.op == Op::list ? make_list(b, std::move(items)) : make_tuple(b, std::move(items));
}

Value Vm::eval_dict(const Expr& e, Frame& f) {
  auto d = std::make_shared<Dict>();
  for (size_t i = 0; i < e.kids.size(); i += 2) {
    Value k = eval(*e.kids[i], f), v = eval(*e.kids[i + 1], f);
    at(e);
    d->set(b, std::move(k), std::move(v));
  }
  return make_dict(b, std::move(d));
}

Value Vm::eval_item(const Expr& e, Frame& f) {
  const Value v = eval(*e.kids[0], f);
  const Expr& index = *e.kids[1];
  if (index.op != Op::slice) {
    const Value key = eval(index, f);
    at(e);
    return item(v, key);
  }
  const auto part = [&](size_t i) { return index.kids[i] ? eval(*index.kids[i], f) : Value(); };
  const Value start = part(0), stop = part(1), step = part(2);
  at(e);
  try {
    return slice(b, v, start, stop, step);
  } catch (const Failure& failure) {
    // Jinja folds constant expressions through its item lookup, which turns a TypeError into undefined.
    if (failure.fault != Fault::type || !is_constant(e)) throw;
    return make_undefined(v, Value::none());
  }
}

Value Vm::eval_unary(const Expr& e, Frame& f) {
  const Value v = eval(*e.kids[0], f);
  at(e);
  return e.op == Op::minus ? negative(v) : positive(v);
}

Value Vm::eval_binary(const Expr& e, Frame& f) {
  const Value x = eval(*e.kids[0], f), y = eval(*e.kids[1], f);
  at(e);
  if (e.op == Op::add) return add(b, x, y);
  if (e.op == Op::mod && x.is(Kind::string)) return format_percent(*this, str(x), y);
  return arithmetic(b, e.op, x, y);
}

Value Vm::eval_concat(const Expr& e, Frame& f) {
  Writer w(b);
  for (const ExprPtr& k : e.kids) {
    const Value v = eval(*k, f);
    at(e);
    write_str(w, v);
  }
  return w.take();
}

Value Vm::eval_compare(const Expr& e, Frame& f) {
  Value left = eval(*e.kids[0], f);
  for (size_t i = 0; i < e.relations.size(); ++i) {
    Value right = eval(*e.kids[i + 1], f);
    at(e);
    bool ok = false;
    switch (e.relations[i]) {
      case Rel::eq: ok = equal(b, left, right); break;
      case Rel::ne: ok = !equal(b, left, right); break;
      case Rel::lt: ok = less(b, left, right, "<"); break;
      case Rel::le: ok = less(b, left, right, "<="); break;
      case Rel::gt: ok = less(b, left, right, ">"); break;
      case Rel::ge: ok = less(b, left, right, ">="); break;
      case Rel::in: ok = contains(b, left, right); break;
      case Rel::not_in: ok = !contains(b, left, right); break;
    }
    if (!ok) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

void Vm::eval_args(const CallArgs* args, Frame& f, Args& out) {
  if (!args) return;
  out.positional.reserve(args->positional.size());
  for (const ExprPtr& k : args->positional) out.positional.push_back(eval(*k, f));
  for (const auto& [name, k] : args->named) out.named.emplace_back(name, eval(*k, f));
  if (args->star) {
    std::vector<Value> more = collect(b, eval(*args->star, f));
    out.positional.insert(out.positional.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  if (!args->star_star) return;
  const Value more = eval(*args->star_star, f);
  if (!more.is(Kind::dict)) raise(Fault::type, std::string("argument after ** must be a mapping, not ") + type_name(more));
  for (const auto& [k, v] : more.as<Dict>().items()) {
    if (!k.is(Kind::string)) raise(Fault::type, "keywords must be strings");
    if (out.find(text(k))) raise(Fault::type, "got multiple values for keyword argument '" + std::string(text(k)) + "'");
    out.named.emplace_back(std::string(text(k)), v);
  }
}

Value Vm::eval_call(const Expr& e, Frame& f) {
  const Value callee = eval(*e.kids[0], f);
  Args args;
  eval_args(e.args.get(), f, args);
  at(e);
  return call(callee, args);
}

Value Vm::eval_filter(const Expr& e, Frame& f, const Value* block_text) {
  if (!e.row) at(e), raise(Fault::runtime, "No filter named '" + e.name + "' found.");
  const Expr* inner = e.kids[0].get();
  const Value subject = !inner ? (block_text ? *block_text : Value::none())
                        : block_text && inner->op == Op::filter ? eval_filter(*inner, f, block_text) : eval(*inner, f);
  Args args;
  eval_args(e.args.get(), f, args);
  at(e);
  return invoke(*this, *e.row, subject, args);
}

Value Vm::eval_test(const Expr& e, Frame& f) {
  if (!e.row) at(e), raise(Fault::runtime, "No test named '" + e.name + "' found.");
  const Value subject = eval(*e.kids[0], f);
  Args args;
  eval_args(e.args.get(), f, args);
  at(e);
  return invoke(*this, *e.row, subject, args);
}

Value Vm::attribute(const Value& v, std::string_view name) {
  if (Value found = find_attribute(*this, v, name); given(found)) return found;
  if (v.is(Kind::dict)) {
    if (const Value* found = v.as<Dict>().find(name)) return *found;
  } else if (v.is(Kind::undefined)) {
    raise_undefined(v);
  }
  return make_undefined(v, make_literal(std::string(name)));
}

Value Vm::item(const Value& v, const Value& key) {
  if (Value found = subscript(b, v, key); given(found)) return found;
  if (key.is(Kind::string))
    if (Value found = find_attribute(*this, v, text(key)); given(found)) return found;
  return make_undefined(v, key);
}

Value Vm::call_filter(std::string_view name, const Value& subject, Args& args) {
  const Row* row = find_filter(name);
  if (!row) raise(Fault::runtime, "No filter named '" + std::string(name) + "'.");
  b.charge(1);
  return invoke(*this, *row, subject, args);
}

bool Vm::call_test(std::string_view name, const Value& subject, Args& args) {
  const Row* row = find_test(name);
  if (!row) raise(Fault::runtime, "No test named '" + std::string(name) + "'.");
  b.charge(1);
  return truth(invoke(*this, *row, subject, args));
}

Value Vm::call(const Value& f, Args& args) {
  switch (f.kind()) {
    case Kind::function: return invoke(*this, *f.as<Function>().row, f.as<Function>().self, args);
    case Kind::macro: return call_macro(f.as<Macro>(), args);
    case Kind::loop: return call_loop(f, args);
    case Kind::joiner: {
      Joiner& j = f.as<Joiner>();
      return std::exchange(j.used, true) ? j.separator : make_string(b, {});
    }
    case Kind::undefined: raise_undefined(f);
    default: raise(Fault::type, std::string("'") + type_name(f) + "' object is not callable");
  }
}

}  // namespace isotope::text::jinja
