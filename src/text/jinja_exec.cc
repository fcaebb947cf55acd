// Statements, frames, macros and loops.
#include <algorithm>
#include <utility>

#include "text/jinja_repr.h"
#include "text/jinja_vm.h"

namespace isotope::text::jinja {

// A frame for the time of a block.
class Vm::Scope {
 public:
  Scope(Vm& vm, const Plan& plan, Frame* parent) : vm_(vm), frame_(vm.enter(plan, parent)) {}
  ~Scope() { vm_.leave(frame_); }
  Scope(const Scope&) = delete;
  Frame& operator*() { return frame_; }

 private:
  Vm& vm_;
  Frame& frame_;
};

namespace {

// Sends output elsewhere for the time of a block.
class Redirect {
 public:
  Redirect(Writer*& out, Writer& to) : out_(out), old_(std::exchange(out, &to)) {}
  ~Redirect() { out_ = old_; }
  Redirect(const Redirect&) = delete;

 private:
  Writer*& out_;
  Writer* old_;
};

constexpr uint64_t kCapturedFrameCost = 16;  // steps: a captured frame stays until the end of the render

}  // namespace

Vm::~Vm() {
  for (auto& s : spaces_) s->attributes.clear();
  for (auto& l : loops_) l->drop();
  for (auto& f : frames_) f->slots.clear();
}

// ---------------------------------------------------------------- frames

Frame& Vm::enter(const Plan& plan, Frame* parent) {
  if (free_.empty()) {
    frames_.push_back(std::make_unique<Frame>());
    free_.push_back(frames_.back().get());
  }
  Frame& f = *free_.back();
  free_.pop_back();
  f.parent = parent;
  f.captured = false;
  f.slots.assign(plan.size(), Value());
  b.charge(1 + plan.size());
  init(f, plan);
  return f;
}

void Vm::init(Frame& f, const Plan& plan) {
  for (size_t i = 0; i < plan.size(); ++i) {
    switch (plan[i].how) {
      case Load::parameter: break;
      case Load::resolve: f.slots[i] = lookup(plan[i].name); break;
      case Load::alias: f.slots[i] = outward(f, plan[i].outer.hops).slots[plan[i].outer.index]; break;
      case Load::undefined: f.slots[i] = Value(); break;
    }
  }
}

void Vm::leave(Frame& f) {
  if (f.captured) return;
  f.slots.clear();
  free_.push_back(&f);
}

Frame& Vm::outward(Frame& f, uint16_t hops) {
  Frame* p = &f;
  for (; hops; --hops) p = p->parent;
  return *p;
}

void Vm::capture(Frame& f) {
  for (Frame* p = &f; p && !p->captured; p = p->parent) p->captured = true, b.charge(kCapturedFrameCost);
}

Value Vm::lookup(const std::string& name) const {
  const auto found = context_.variables.find(name);
  if (found != context_.variables.end()) return found->second;
  const Row* row = find_global(name);
  return row ? make_function(*row, {}, name == "namespace" ? "type" : name == "dict" ? "TemplateDict" : "function") : Value();
}

Value Vm::make_space(std::shared_ptr<Dict> attributes) {
  auto s = std::make_shared<Space>();
  s->attributes = std::move(*attributes);
  spaces_.push_back(s);
  b.charge(kCapturedFrameCost);
  return {Kind::space, std::move(s)};
}

// ---------------------------------------------------------------- statements

Value Vm::run() {
  Writer out(b);
  const Redirect redirect(out_, out);
  Scope root(*this, program_.plan, nullptr);
  capture(*root);
  exec(program_.body, *root);
  return out.take();
}

void Vm::print(const Value& v) { write_str(*out_, v); }

Vm::Flow Vm::exec(const Body& body, Frame& f) {
  for (const Stmt& s : body)
    if (const Flow flow = exec(s, f); flow != Flow::normal) return flow;
  return Flow::normal;
}

Vm::Flow Vm::exec(const Stmt& s, Frame& f) {
  const Nest nest(*this);
  Flow flow = Flow::normal;
  switch (s.tag) {
    case Tag::data: out_->add(str(s.data)); return flow;
    case Tag::output:
      for (const ExprPtr& e : s.exprs) print(eval(*e, f));
      return flow;
    case Tag::branch: return branch(s, f);
    case Tag::loop: {
      const Value iterable = eval(*s.exprs[0], f);
      pos_ = s.exprs[0]->pos;
      return loop(s, f, iterable, 0, f);
    }
    case Tag::set: {
      check_space(s.targets[0], f);
      const Value v = eval(*s.exprs[0], f);
      assign(s.targets[0], v, f, s.exported);
      return flow;
    }
    case Tag::set_block: {
      const Value v = captured_body(s, f, s.exprs[0], flow);
      if (flow == Flow::normal) assign(s.targets[0], v, f, s.exported);
      return flow;
    }
    case Tag::filter_block: {
      const Value v = captured_body(s, f, s.exprs[0], flow);
      if (flow == Flow::normal) print(v);
      return flow;
    }
    case Tag::macro: {
      const Value m = make_macro(s, f);
      outward(f, s.self_slot.hops).slots[s.self_slot.index] = m;
      if (s.exported) context_.variables[s.name] = m;
      return flow;
    }
    case Tag::call_block: call_block(s, f); return flow;
    case Tag::with: {
      std::vector<Value> values;
      for (const ExprPtr& e : s.exprs) values.push_back(eval(*e, f));
      Scope inner(*this, s.plan, &f);
      for (size_t i = 0; i < values.size(); ++i) assign(s.targets[i], values[i], *inner, false);
      return exec(s.bodies[0], *inner);
    }
    case Tag::block: {
      Scope inner(*this, s.plan, s.scoped ? &f : nullptr);
      return exec(s.bodies[0], *inner);
    }
    case Tag::generation: {
      Scope inner(*this, s.plan, &f);
      return exec(s.bodies[0], *inner);
    }
    case Tag::break_loop: return Flow::broke;
    case Tag::continue_loop: return Flow::continued;
  }
  return flow;
}

Vm::Flow Vm::branch(const Stmt& s, Frame& f) {
  for (size_t i = 0; i < s.exprs.size(); ++i)
    if (truth(eval(*s.exprs[i], f))) return exec(s.bodies[i], f);
  return s.has_else ? exec(s.bodies.back(), f) : Flow::normal;
}

Value Vm::captured_body(const Stmt& s, Frame& f, const ExprPtr& filter, Flow& flow) {
  Scope inner(*this, s.plan, &f);
  Writer w(b);
  {
    const Redirect redirect(out_, w);
    flow = exec(s.bodies[0], *inner);
  }
  const Value v = w.take();
  return filter && flow == Flow::normal ? eval_filter(*filter, *inner, &v) : v;
}

void Vm::check_space(const Target& t, Frame& f) {
  for (const Target& i : t.items) check_space(i, f);
  if (t.kind != Target::attribute) return;
  if (!outward(f, t.slot.hops).slots[t.slot.index].is(Kind::space))
    pos_ = t.pos, raise(Fault::runtime, "cannot assign attribute on non-namespace object");
}

void Vm::assign(const Target& t, const Value& v, Frame& f, bool exported) {
  switch (t.kind) {
    case Target::variable:
      outward(f, t.slot.hops).slots[t.slot.index] = v;
      if (exported) context_.variables[t.name] = v;
      return;
    case Target::attribute: {
      pos_ = t.pos;
      check_space(t, f);
      if (t.field[0] == '_')
        raise(Fault::security, "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '" + t.field +
                                   "'. Please rename the attribute.");
      outward(f, t.slot.hops).slots[t.slot.index].as<Space>().attributes.set(b, make_literal(t.field), v);
      return;
    }
    case Target::tuple: {
      pos_ = t.pos;
      if (!is_iterable(v)) raise(Fault::type, std::string("cannot unpack non-iterable ") + type_name(v) + " object");
      const auto it = iterate(b, v);
      std::vector<Value> items;
      for (Value x; items.size() <= t.items.size() && it->next(x);) items.push_back(std::move(x));
      if (items.size() > t.items.size())
        raise(Fault::value, "too many values to unpack (expected " + std::to_string(t.items.size()) + ")");
      if (items.size() < t.items.size())
        raise(Fault::value, "not enough values to unpack (expected " + std::to_string(t.items.size()) + ", got " +
                                std::to_string(items.size()) + ")");
      for (size_t i = 0; i < items.size(); ++i) assign(t.items[i], items[i], f, exported);
    }
  }
}

// ---------------------------------------------------------------- loops

void Loop::drop() {
  iter.reset();
  iterable = after = current = before = last_changed = Value();
}

bool Loop::advance(Value& out) {
  if (given(after)) out = std::exchange(after, Value());
  else if (!iter || !iter->next(out)) return false;
  ++index0;
  before = std::exchange(current, out);
  return true;
}

const Value& Loop::peek() {
  if (!given(after) && iter) {
    Value v;
    if (iter->next(v)) after = std::move(v);
  }
  return after;
}

size_t Loop::length() {
  if (length_ >= 0) return static_cast<size_t>(length_);
  if (given(iterable)) {
    length_ = static_cast<int64_t>(jinja::length(iterable));
  } else if (iter) {  // a generator: run it to its end and go on from the list
    auto rest = std::make_shared<Seq>();
    for (Value v; iter->next(v);) budget->check_items(rest->items.size() + 1), rest->items.push_back(std::move(v));
    length_ = static_cast<int64_t>(rest->items.size()) + index0 + 1 + (given(after) ? 1 : 0);
    iter = iterate(*budget, Value(Kind::list, std::move(rest)));
  }
  return static_cast<size_t>(std::max<int64_t>(length_, 0));
}

namespace {

// What the generator of a filtered loop yields: the targets again, so that lists come out as tuples.
Value retupled(Budget& b, const Target& t, const Frame& f) {
  if (t.kind != Target::tuple) return f.slots[t.slot.index];
  std::vector<Value> items;
  for (const Target& i : t.items) items.push_back(retupled(b, i, f));
  return make_tuple(b, std::move(items));
}

}  // namespace

std::shared_ptr<Iter> Vm::filtered(const Stmt& s, const Value& iterable, Frame& outer) {
  capture(outer);
  Frame& test = enter(s.test_plan, &outer);
  capture(test);
  auto source = iterate(b, iterable);
  const Value lazy = make_lazy([this, &s, &test, source](Value& out) {
    while (source->next(out)) {
      assign(s.targets[1], out, test, false);
      if (!truth(eval(*s.exprs[1], test))) continue;
      out = retupled(b, s.targets[1], test);
      return true;
    }
    return false;
  }, iterable);
  return lazy.shared<Iter>();
}

Vm::Flow Vm::loop(const Stmt& s, Frame& f, const Value& iterable, int64_t depth0, Frame& outer) {
  auto state = std::make_shared<Loop>();
  state->budget = &b;
  state->depth0 = depth0;
  if (s.exprs[1]) state->iter = filtered(s, iterable, outer);
  else state->iter = iterate(b, iterable);
  if (!s.exprs[1] && !iterable.is(Kind::iterator)) state->iterable = iterable;
  if (s.recursive) {
    state->recursive = &s;
    state->frame = &outer;
    capture(outer);
  }
  struct Keep {  // whatever happens, cycles through a loop that outlives its run are broken at the end of the render
    ~Keep() { if (state.use_count() > 1) loops.push_back(state); }
    std::shared_ptr<Loop>& state;
    std::vector<std::shared_ptr<Loop>>& loops;
  } keep{state, loops_};
  // As the Python that Jinja writes: `else` runs unless some body ran to its end, so also when each one left by continue or
  // break.
  if (run_loop(s, *state, Value(Kind::loop, state), outer) || !s.has_else) return Flow::normal;
  Scope other(*this, s.else_plan, &f);
  return exec(s.bodies[1], *other);
}

bool Vm::run_loop(const Stmt& s, Loop& state, const Value& loop, Frame& outer) {
  Scope body(*this, s.plan, &outer);
  Frame& f = *body;
  bool completed = false;
  for (Value v; state.advance(v);) {
    if (state.index0 > 0) init(f, s.plan);
    b.charge(1 + s.plan.size() / 4);
    f.slots[static_cast<size_t>(s.loop_slot)] = loop;
    assign(s.targets[0], v, f, false);
    const Flow flow = exec(s.bodies[0], f);
    completed = completed || flow == Flow::normal;
    if (flow == Flow::broke) break;
  }
  return completed;
}

// loop(items) inside a recursive loop: the body again, one level deeper, as a string.
Value Vm::call_loop(const Value& v, Args& args) {
  const Loop& l = v.as<Loop>();
  if (!l.recursive) raise(Fault::type, "The loop must have the 'recursive' marker to be called recursively.");
  if (args.positional.size() != 1 || !args.named.empty()) raise(Fault::type, "loop() takes the items to iterate over");
  const Nest nest(*this);
  Writer w(b);
  const Redirect redirect(out_, w);
  loop(*l.recursive, *l.frame, args.positional[0], l.depth0 + 1, *l.frame);
  return w.take();
}

// ---------------------------------------------------------------- macros

Value Vm::make_macro(const Stmt& s, Frame& f) {
  capture(f);
  auto m = std::make_shared<Macro>();
  m->stmt = &s;
  m->frame = &f;
  return {Kind::macro, std::move(m)};
}

void Vm::call_block(const Stmt& s, Frame& f) {
  const Value caller = make_macro(s, f);
  const Value callee = eval(*s.call->kids[0], f);
  Args args;
  eval_args(s.call->args.get(), f, args);
  args.named.emplace_back("caller", caller);
  at(*s.call);
  print(call(callee, args));
}

Value Vm::call_macro(const Macro& m, Args& args) {
  const Nest nest(*this);
  const Stmt& s = *m.stmt;
  const size_t n = s.targets.size();
  const std::string name = m.anonymous() ? "None" : "'" + s.name + "'";
  const auto take = [&](std::string_view key) {
    const Value* v = args.find(key);
    const Value out = v ? *v : Value();
    args.drop(key);
    return out;
  };
  std::vector<Value> values(args.positional.begin(),
                            args.positional.begin() + static_cast<std::ptrdiff_t>(std::min(n, args.positional.size())));
  while (values.size() < n) values.push_back(take(s.targets[values.size()].name));
  Value caller;
  if (s.caller_slot >= 0) {
    caller = take("caller");
    if (!given(caller) || caller.is(Kind::none)) caller = make_hint("No caller defined");
  }
  if (s.kwargs_slot < 0 && !args.named.empty()) {
    if (args.find("caller"))
      raise(Fault::type,
            "macro " + name + " was invoked with two values for the special caller argument. This is most likely a bug.");
    raise(Fault::type, "macro " + name + " takes no keyword argument '" + args.named[0].first + "'");
  }
  if (s.varargs_slot < 0 && args.positional.size() > n)
    raise(Fault::type, "macro " + name + " takes not more than " + std::to_string(n) + " argument(s)");

  Scope scope(*this, s.plan, m.frame);
  Frame& f = *scope;
  if (s.caller_slot >= 0) f.slots[static_cast<size_t>(s.caller_slot)] = caller;
  if (s.kwargs_slot >= 0) {
    auto rest = std::make_shared<Dict>();
    for (auto& [key, v] : args.named) rest->set(b, make_string(b, key, true), v);  // ** may have brought names from outside
    f.slots[static_cast<size_t>(s.kwargs_slot)] = make_dict(b, std::move(rest));
  }
  if (s.varargs_slot >= 0) {
    const auto first = args.positional.begin() + static_cast<std::ptrdiff_t>(std::min(n, args.positional.size()));
    f.slots[static_cast<size_t>(s.varargs_slot)] = make_tuple(b, std::vector<Value>(first, args.positional.end()));
  }
  for (size_t i = 0; i < n; ++i) {
    const size_t first_default = n - s.exprs.size();
    Value v = values[i];
    if (!given(v))
      v = i < first_default ? make_hint("parameter '" + s.targets[i].name + "' was not provided")
                            : eval(*s.exprs[i - first_default], f);
    assign(s.targets[i], v, f, false);
  }
  Writer w(b);
  const Redirect redirect(out_, w);
  exec(s.bodies[0], f);
  return w.take();
}

}  // namespace isotope::text::jinja
