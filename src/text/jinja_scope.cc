#include "text/jinja_scope.h"

#include <map>
#include <optional>
#include <set>

#include "text/jinja_call.h"
#include "text/jinja_lexer.h"
#include "text/jinja_parser.h"

namespace isotope::text::jinja {
namespace {

using SlotNames = std::map<std::string, uint16_t, std::less<>>;

// What one frame knows. Branches of an `if` work on copies that share the slot numbers and are merged afterwards.
struct Symbols {
  const Symbols* parent = nullptr;
  SlotNames* slots = nullptr;
  std::map<std::string, Load, std::less<>> loads;
  std::set<std::string, std::less<>> stores;

  std::optional<Slot> find(std::string_view name) const {
    uint16_t hops = 0;
    for (const Symbols* s = this; s; s = s->parent, ++hops)
      if (s->loads.count(name)) return Slot{hops, s->slots->find(name)->second};
    return {};
  }
  std::optional<Slot> find_outer(std::string_view name) const {
    if (!parent) return {};
    auto s = parent->find(name);
    if (s) ++s->hops;
    return s;
  }
  void define(const std::string& name, Load load) {
    if (slots->size() >= 60000) raise(Fault::unsupported, "a scope has more than 60000 variables", 0);
    slots->emplace(name, static_cast<uint16_t>(slots->size()));
    load.name = name;
    loads[name] = std::move(load);
  }
  Load outer_or(std::string_view name, decltype(Load::how) otherwise) const {
    const auto outer = find_outer(name);
    return outer ? Load{Load::alias, {}, *outer} : Load{otherwise, {}, {}};
  }
  void load(const std::string& name) {
    if (!find(name)) define(name, {Load::resolve, {}, {}});
  }
  void store(const std::string& name) {
    stores.insert(name);
    if (!loads.count(name)) define(name, outer_or(name, Load::undefined));
  }
  void parameter(const std::string& name) {
    stores.insert(name);
    define(name, {Load::parameter, {}, {}});
  }
  int slot(std::string_view name) const { return slots->find(name)->second; }

  void merge(const std::vector<Symbols>& branches) {
    std::set<std::string> fresh;
    for (const Symbols& b : branches)
      for (const std::string& name : b.stores)
        if (!stores.count(name)) fresh.insert(name);
    for (const Symbols& b : branches) {
      for (const auto& [name, l] : b.loads) loads[name] = l;
      stores.insert(b.stores.begin(), b.stores.end());
    }
    for (const std::string& name : fresh) {
      Load l = outer_or(name, Load::resolve);
      l.name = name;
      loads[name] = std::move(l);
    }
  }
  Plan plan() const {
    Plan out(slots->size());
    for (const auto& [name, l] : loads) out[slots->find(name)->second] = l;
    return out;
  }
};

// One frame while it is being bound.
struct Frame {
  SlotNames names;
  Symbols symbols;
  explicit Frame(const Symbols* parent) { symbols.parent = parent, symbols.slots = &names; }
};

struct Mode {
  bool soft = false;      // inside an if: unknown filters are an error only when they run
  bool toplevel = false;  // `set` is visible to blocks
};

class Binder {
 public:
  void run(Program& p) {
    Frame root(nullptr);
    analyze(root.symbols, p.body);
    bind(root.symbols, p.body, {.toplevel = p.has_blocks});
    p.plan = root.symbols.plan();
  }

 private:
  // ---- first pass: what a frame reads and stores, without the frames inside it
  void analyze(Symbols& s, const Body& body) {
    for (const Stmt& st : body) analyze(s, st);
  }

  void analyze(Symbols& s, const Stmt& st) {
    switch (st.tag) {
      case Tag::output: for (const ExprPtr& e : st.exprs) analyze(s, e); return;
      case Tag::branch: return analyze_branch(s, st, 0);
      case Tag::loop: return analyze(s, st.exprs[0]);
      case Tag::set: analyze(s, st.exprs[0]); return store(s, st.targets[0], false);
      case Tag::set_block: return store(s, st.targets[0], false);
      case Tag::macro: return s.store(st.name);
      case Tag::call_block: return analyze(s, st.call);
      case Tag::filter_block: return analyze(s, st.exprs[0]);
      case Tag::with: for (const ExprPtr& e : st.exprs) analyze(s, e); return;
      default: return;
    }
  }

  // Jinja looks at test, body, then at all elifs in one copy, then at else. An elif is a whole `if` again.
  void analyze_branch(Symbols& s, const Stmt& st, size_t i) {
    analyze(s, st.exprs[i]);
    if ((copied_ += s.loads.size() + s.stores.size()) > kMaxCopies)
      raise(Fault::unsupported, "the template is too large to bind its variables", st.pos);
    std::vector<Symbols> branches(i == 0 ? 3 : 1, s);
    analyze(branches[0], st.bodies[i]);
    if (i == 0) {
      for (size_t k = 1; k < st.exprs.size(); ++k) analyze_branch(branches[1], st, k);
      if (st.has_else) analyze(branches[2], st.bodies.back());
    }
    s.merge(branches);
  }

  void analyze(Symbols& s, const ExprPtr& e) {
    if (!e) return;
    if (e->op == Op::name) s.load(e->name);
    for (const ExprPtr& k : e->kids) analyze(s, k);
    if (!e->args) return;
    for (const ExprPtr& k : e->args->positional) analyze(s, k);
    for (const auto& [name, k] : e->args->named) analyze(s, k);
    analyze(s, e->args->star), analyze(s, e->args->star_star);
  }

  void store(Symbols& s, const Target& t, bool parameter) {
    if (t.kind == Target::attribute) s.load(t.name);
    else if (t.kind == Target::tuple) for (const Target& i : t.items) store(s, i, parameter);
    else if (parameter) s.parameter(t.name);
    else s.store(t.name);
  }

  // ---- second pass: slots, and the frames inside
  void bind(Symbols& s, Body& body, Mode mode) {
    for (Stmt& st : body) bind(s, st, mode);
  }

  void bind(Symbols& s, Stmt& st, Mode mode) {
    switch (st.tag) {
      case Tag::branch: {
        const Mode soft{true, mode.toplevel};
        for (ExprPtr& e : st.exprs) bind(s, e, soft);
        for (Body& b : st.bodies) bind(s, b, soft);
        return;
      }
      case Tag::loop: return bind_loop(s, st, mode);
      case Tag::set_block: {
        Frame f(&s);
        analyze(f.symbols, st.bodies[0]), analyze(f.symbols, st.exprs[0]);
        bind(f.symbols, st.bodies[0], {}), bind(f.symbols, st.exprs[0], {});
        st.plan = f.symbols.plan();
        break;
      }
      case Tag::macro: case Tag::call_block: case Tag::generation: bind_macro(s, st, mode); break;
      case Tag::filter_block: {
        Frame f(&s);
        analyze(f.symbols, st.bodies[0]), analyze(f.symbols, st.exprs[0]);
        bind(f.symbols, st.bodies[0], {}), bind(f.symbols, st.exprs[0], {});
        st.plan = f.symbols.plan();
        return;
      }
      case Tag::with: {
        for (ExprPtr& e : st.exprs) bind(s, e, mode);
        Frame f(&s);
        for (Target& t : st.targets) store(f.symbols, t, true);
        analyze(f.symbols, st.bodies[0]);
        for (Target& t : st.targets) bind(f.symbols, t);
        bind(f.symbols, st.bodies[0], {});
        st.plan = f.symbols.plan();
        return;
      }
      case Tag::block: {
        Frame f(st.scoped ? &s : nullptr);
        analyze(f.symbols, st.bodies[0]);
        bind(f.symbols, st.bodies[0], {});
        st.plan = f.symbols.plan();
        return;
      }
      default: for (ExprPtr& e : st.exprs) bind(s, e, mode);
    }
    for (Target& t : st.tag == Tag::set || st.tag == Tag::set_block ? st.targets : no_targets_) bind(s, t);
    st.exported = mode.toplevel && (st.tag == Tag::set || st.tag == Tag::set_block || st.tag == Tag::macro);
    if (st.tag == Tag::macro) st.self_slot = *s.find(st.name);
  }

  void refuse_loop_target(const Target& t) {
    if (t.kind == Target::variable && t.name == "loop")
      raise(Fault::syntax, "Can't assign to special loop variable in for-loop target", t.pos);
    for (const Target& i : t.items) refuse_loop_target(i);
  }

  void refuse_loop_targets(const Stmt& st) {
    if (st.tag == Tag::set || st.tag == Tag::set_block || st.tag == Tag::loop)
      for (const Target& t : st.targets) refuse_loop_target(t);
    for (const Body& b : st.bodies)
      for (const Stmt& inner : b) refuse_loop_targets(inner);
  }

  void bind_loop(Symbols& s, Stmt& st, Mode mode) {
    bind(s, st.exprs[0], mode);
    if (loop_depth_++ == 0) refuse_loop_targets(st);
    Frame inner(&s);
    inner.symbols.parameter("loop");
    store(inner.symbols, st.targets[0], true);
    analyze(inner.symbols, st.bodies[0]);
    bind(inner.symbols, st.targets[0]);
    if (st.exprs[1]) {
      Frame test(&s);
      store(test.symbols, st.targets[0], true);
      analyze(test.symbols, st.exprs[1]);
      bind(test.symbols, st.exprs[1], {});
      st.targets.push_back(st.targets[0]);
      bind(test.symbols, st.targets[1]);
      st.test_plan = test.symbols.plan();
    }
    bind(inner.symbols, st.bodies[0], {});
    st.plan = inner.symbols.plan();
    st.loop_slot = inner.symbols.slot("loop");
    Frame other(&s);
    analyze(other.symbols, st.bodies[1]);
    bind(other.symbols, st.bodies[1], {});
    st.else_plan = other.symbols.plan();
    --loop_depth_;
  }

  // Is `name` read in this body without a store before it, frames inside included? (Jinja's rule for caller, varargs and kwargs.)
  bool reads(const Body& body, std::string_view name) {
    for (const Stmt& st : body) {
      for (const ExprPtr& e : st.exprs) if (reads(e, name)) return true;
      if (reads(st.call, name)) return true;
      for (const Body& b : st.bodies) if (reads(b, name)) return true;
    }
    return false;
  }
  bool reads(const ExprPtr& e, std::string_view name) {
    if (!e) return false;
    if (e->op == Op::name && e->name == name) return true;
    for (const ExprPtr& k : e->kids) if (reads(k, name)) return true;
    if (!e->args) return false;
    for (const ExprPtr& k : e->args->positional) if (reads(k, name)) return true;
    for (const auto& [n, k] : e->args->named) if (reads(k, name)) return true;
    return reads(e->args->star, name) || reads(e->args->star_star, name);
  }

  void bind_macro(Symbols& s, Stmt& st, Mode mode) {
    Frame f(&s);
    std::set<std::string> given;
    for (const Target& t : st.targets) f.symbols.parameter(t.name), given.insert(t.name);
    for (const ExprPtr& e : st.exprs) analyze(f.symbols, e);
    const auto special = [&](const char* name) {
      if (given.count(name) || !reads(st.bodies[0], name)) return -1;
      f.symbols.parameter(name);
      return f.symbols.slot(name);
    };
    if (given.count("caller") && reads(st.bodies[0], "caller")) {
      const size_t first_default = st.targets.size() - st.exprs.size();
      for (size_t i = 0; i < first_default; ++i)
        if (st.targets[i].name == "caller")
          raise(Fault::syntax,
                "When defining macros or call blocks the special \"caller\" argument must be omitted or be given a default.",
                st.pos);
    }
    st.caller_slot = special("caller"), st.kwargs_slot = special("kwargs"), st.varargs_slot = special("varargs");
    analyze(f.symbols, st.bodies[0]);
    for (ExprPtr& e : st.exprs) bind(f.symbols, e, {});
    for (Target& t : st.targets) bind(f.symbols, t);
    bind(f.symbols, st.bodies[0], {});
    st.plan = f.symbols.plan();
    if (st.call) bind(s, st.call, mode);
  }

  void bind(Symbols& s, Target& t) {
    for (Target& i : t.items) bind(s, i);
    if (t.kind != Target::tuple) t.slot = *s.find(t.name);
  }

  void bind(Symbols& s, ExprPtr& e, Mode mode) {
    if (!e) return;
    if (e->op == Op::name) e->slot = *s.find(e->name);
    if (e->op == Op::conditional) mode.soft = true;
    if (e->op == Op::filter && !(e->row = find_filter(e->name)) && !mode.soft)
      raise(Fault::syntax, "No filter named '" + e->name + "'.", e->pos);
    if (e->op == Op::test && !(e->row = find_test(e->name)) && !mode.soft)
      raise(Fault::syntax, "No test named '" + e->name + "'.", e->pos);
    for (ExprPtr& k : e->kids) bind(s, k, mode);
    if (!e->args) return;
    for (ExprPtr& k : e->args->positional) bind(s, k, mode);
    for (auto& [name, k] : e->args->named) bind(s, k, mode);
    bind(s, e->args->star, mode), bind(s, e->args->star_star, mode);
  }

  static constexpr size_t kMaxCopies = 2'000'000;
  size_t copied_ = 0;
  int loop_depth_ = 0;
  std::vector<Target> no_targets_;
};

}  // namespace

void bind_names(Program& program) { Binder().run(program); }

Program compile(std::string source) {
  Program p;
  p.source = normalize_newlines(source);
  Parser parser(tokenize(p.source));
  p.body = parser.parse();
  p.has_blocks = parser.has_blocks();
  bind_names(p);
  return p;
}

}  // namespace isotope::text::jinja
