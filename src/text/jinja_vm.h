// Runs a bound template. One Vm serves one render on one thread; the Program is shared and never written.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_call.h"

namespace isotope::text::jinja {

inline constexpr int kMaxDepth = 1000;  ///< evaluation steps inside each other: about a hundred levels of a recursive macro

struct Frame {
  Frame* parent = nullptr;
  std::vector<Value> slots;
  bool captured = false;  ///< a macro or a lazy loop may read it later: stays until the end of the render
};

struct Macro final : Object {
  const Stmt* stmt;       ///< Tag::macro or Tag::call_block
  Frame* frame;           ///< where it was defined
  bool anonymous() const { return stmt->tag != Tag::macro; }
  const std::string& name() const { return stmt->name; }
};

/// The variable `loop`.
struct Loop final : Object {
  std::shared_ptr<Iter> iter;
  Value iterable;          ///< for len(); missing where Python has only a generator
  int64_t index0 = -1;
  Value after, current, before, last_changed;  ///< missing = none
  int64_t depth0 = 0;
  const Stmt* recursive = nullptr;
  Frame* frame = nullptr;  ///< the frame around a recursive loop
  Budget* budget = nullptr;

  void drop();             ///< lets go of everything, which breaks cycles
  bool advance(Value& out);
  const Value& peek();     ///< the next item without taking it; missing at the end
  size_t length();

 private:
  int64_t length_ = -1;
};

struct Cycler final : Object { std::vector<Value> items; size_t pos = 0; };
struct Joiner final : Object { Value separator; bool used = false; };

/// What the template can see besides its own variables.
struct Context {
  std::unordered_map<std::string, Value> variables;
  int64_t now = 0;         ///< seconds since the epoch
  bool now_is_utc = false; ///< read `now` as UTC instead of local time
};

class Vm {
 public:
  Vm(const Program& program, Budget& budget, Context context) : b(budget), program_(program), context_(std::move(context)) {}
  ~Vm();
  Value run();             ///< the rendered text

  Value call(const Value& f, Args& args);
  Value call_filter(std::string_view name, const Value& subject, Args& args);
  bool call_test(std::string_view name, const Value& subject, Args& args);
  Value attribute(const Value& v, std::string_view name);   ///< v.name: attributes first, then items
  Value item(const Value& v, const Value& key);             ///< v[key]: items first, then attributes
  Value make_space(std::shared_ptr<Dict> attributes);
  const Context& context() const { return context_; }
  uint32_t pos() const { return pos_; }

  Budget& b;

 private:
  enum class Flow : uint8_t { normal, broke, continued };
  class Scope;
  /// Counts a step and a level; bounds recursion.
  struct Nest {
    explicit Nest(Vm& vm) : depth(vm.depth_) {
      vm.b.charge(1);
      if (depth >= kMaxDepth) raise(Fault::limit, "maximum recursion depth exceeded: a macro or loop calls itself too often");
      ++depth;
    }
    ~Nest() { --depth; }
    Nest(const Nest&) = delete;
    int& depth;
  };

  // statements (jinja_exec.cc)
  Flow exec(const Body& body, Frame& f);
  Flow exec(const Stmt& s, Frame& f);
  Flow branch(const Stmt& s, Frame& f);
  Flow loop(const Stmt& s, Frame& f, const Value& iterable, int64_t depth0, Frame& outer);
  bool run_loop(const Stmt& s, Loop& state, const Value& loop, Frame& outer);  ///< has a body run to its end?
  std::shared_ptr<Iter> filtered(const Stmt& s, const Value& iterable, Frame& outer);
  Value call_loop(const Value& loop, Args& args);
  Value captured_body(const Stmt& s, Frame& f, const ExprPtr& filter, Flow& flow);
  void assign(const Target& t, const Value& v, Frame& f, bool exported);
  void check_space(const Target& t, Frame& f);
  void call_block(const Stmt& s, Frame& f);
  Value make_macro(const Stmt& s, Frame& f);
  Value call_macro(const Macro& m, Args& args);
  void print(const Value& v);

  // expressions (jinja_eval.cc)
  Value eval(const Expr& e, Frame& f);
  Value eval_name(const Expr& e, Frame& f);
  Value eval_conditional(const Expr& e, Frame& f);
  Value eval_compare(const Expr& e, Frame& f);
  Value eval_concat(const Expr& e, Frame& f);
  Value eval_item(const Expr& e, Frame& f);
  Value eval_call(const Expr& e, Frame& f);
  Value eval_filter(const Expr& e, Frame& f, const Value* block_text);
  Value eval_test(const Expr& e, Frame& f);
  Value eval_binary(const Expr& e, Frame& f);
  Value eval_unary(const Expr& e, Frame& f);
  Value eval_items(const Expr& e, Frame& f);
  Value eval_dict(const Expr& e, Frame& f);
  void eval_args(const CallArgs* args, Frame& f, Args& out);
  void at(const Expr& e) { pos_ = e.pos; }

  Value lookup(const std::string& name) const;
  Frame& enter(const Plan& plan, Frame* parent);
  void init(Frame& frame, const Plan& plan);
  void leave(Frame& frame);
  static Frame& outward(Frame& f, uint16_t hops);
  void capture(Frame& f);

  const Program& program_;
  Context context_;
  Writer* out_ = nullptr;
  uint32_t pos_ = 0;
  int depth_ = 0;
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<Frame*> free_;
  std::vector<std::shared_ptr<Space>> spaces_;
  std::vector<std::shared_ptr<Loop>> loops_;  ///< those that something still refers to after their end
};

// jinja_ops.cc: operators with Python's rules.
Value add(Budget& b, const Value& x, const Value& y);
Value arithmetic(Budget& b, Op op, const Value& x, const Value& y);
Value negative(const Value& v);
Value positive(const Value& v);
bool contains(Budget& b, const Value& item, const Value& container);
Value slice(Budget& b, const Value& v, const Value& start, const Value& stop, const Value& step);
/// v[key] alone. Missing = Python's TypeError or LookupError, which templates see as undefined.
Value subscript(Budget& b, const Value& v, const Value& key);
/// Is it safe, and does it exist? Missing = AttributeError.
Value find_attribute(Vm& vm, const Value& v, std::string_view name);

// jinja_format.cc
Value format_percent(Vm& vm, const Str& format, const Value& args);       ///< format % args
Value format_braces(Vm& vm, const Str& format, const Args& args);         ///< format.format(…)
std::string format_time(const Context& c, std::string_view format);       ///< datetime.now().strftime(format)

}  // namespace isotope::text::jinja
