// The syntax tree of a template, with every variable bound to a slot of a frame (see jinja_scope.h).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace isotope::text::jinja {

inline constexpr uint32_t kMaxTreeDepth = 500;  ///< of expressions; recursion stays bounded

struct Slot { uint16_t hops = 0, index = 0; };  ///< hops frames outwards, then its index

enum class Op : uint8_t {
  constant,
  name,
  list,
  tuple,
  dict,
  attribute,
  item,
  slice,
  call,
  filter,
  test,
  conditional,
  all,
  any,
  negate,
  plus,
  minus,
  concat,
  compare,
  add,
  sub,
  mul,
  div,
  floor_div,
  mod,
  pow
};
enum class Rel : uint8_t { eq, ne, lt, le, gt, ge, in, not_in };

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, star_star;
};

struct Row;

struct Expr {
  Op op;
  uint32_t pos = 0;
  uint32_t depth = 1;
  std::string name;              ///< variable, attribute, filter or test
  Value constant;
  std::vector<ExprPtr> kids;     ///< operands in source order. dict: key, value, …  conditional: test, then, else (may be null)
                                 ///< slice: start, stop, step (may be null)  item: object, index  filter, test, call: the subject
                                 ///< (null in filter blocks)
  std::vector<Rel> relations;    ///< compare: kids[0] relations[0] kids[1] relations[1] …
  std::unique_ptr<CallArgs> args;
  Slot slot;
  const Row* row = nullptr;      ///< filter or test; null = unknown, an error when it runs
};

struct Target {
  enum { variable, attribute, tuple } kind = variable;
  uint32_t pos = 0;
  std::string name, field;       ///< attribute: name.field, where name is a namespace
  Slot slot;
  std::vector<Target> items;
};

/// How a frame starts: one row for each slot.
struct Load {
  enum { parameter, resolve, alias, undefined } how = undefined;
  std::string name;
  Slot outer;
};
using Plan = std::vector<Load>;

enum class Tag : uint8_t {
  data,
  output,
  branch,
  loop,
  set,
  set_block,
  macro,
  call_block,
  filter_block,
  with,
  block,
  generation,
  break_loop,
  continue_loop
};

struct Stmt;
using Body = std::vector<Stmt>;

struct Stmt {
  Tag tag;
  uint32_t pos = 0;
  std::string name;              ///< macro, block
  Value data;
  std::vector<ExprPtr> exprs;  ///< output: what to print. branch: the tests. loop: iterable, filter (or null). set: the value.
                               ///< set_block, filter_block: filter (or null) with: the values. macro, call_block: defaults of the
                               ///< last parameters; call_block: the call itself is `call`
  ExprPtr call;
  std::vector<Target> targets;   ///< set: one. loop: one, and the same for the filter's frame. with: one for each value. macro,
                                 ///< call_block: parameters
  std::vector<Body> bodies;      ///< branch: one for each test, and one more for else. loop: body, else. Others: one
  bool recursive = false, has_else = false, scoped = false, exported = false;
  Plan plan, test_plan, else_plan;
  Slot self_slot;                ///< macro: where it is stored
  int loop_slot = -1, caller_slot = -1, kwargs_slot = -1, varargs_slot = -1;
};

struct Program {
  std::string source;            ///< with newlines normalised; positions refer to it
  Body body;
  Plan plan;
  bool has_blocks = false;
};

/// Parses and binds. Throws Failure with a position.
Program compile(std::string source);

}  // namespace isotope::text::jinja
