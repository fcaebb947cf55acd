// The expression half of the parser.
#include <algorithm>
#include <charconv>

#include "text/jinja_number.h"
#include "text/jinja_parser.h"

namespace isotope::text::jinja {

ExprPtr Parser::node(Op op, uint32_t pos) {
  auto e = std::make_unique<Expr>();
  e->op = op;
  e->pos = pos;
  return e;
}

void Parser::seal(Expr& e) {
  const auto deepen = [&](const ExprPtr& k) { if (k) e.depth = std::max(e.depth, k->depth + 1); };
  for (const ExprPtr& k : e.kids) deepen(k);
  if (e.args) {
    for (const ExprPtr& k : e.args->positional) deepen(k);
    for (const auto& [name, k] : e.args->named) deepen(k);
    deepen(e.args->star), deepen(e.args->star_star);
  }
  if (e.depth > kMaxTreeDepth)
    fail("an expression has more than " + std::to_string(kMaxTreeDepth) + " operations in one chain", e.pos);
}

ExprPtr Parser::expression(bool with_conditional) {
  const Nest nest(*this);
  return with_conditional ? conditional() : either();
}

ExprPtr Parser::conditional() {
  uint32_t pos = now().pos;
  ExprPtr e = either();
  while (skip_name("if")) {
    ExprPtr test = either(), other;
    if (skip_name("else")) {
      const Nest nest(*this);
      other = conditional();
    }
    e = node(Op::conditional, pos, std::move(test), std::move(e), std::move(other));
    pos = now().pos;
  }
  return e;
}

// a or b or c is one node: the value of the first that decides, whatever the grouping.
ExprPtr Parser::either() {
  const uint32_t pos = now().pos;
  ExprPtr e = both();
  if (!is_name("or")) return e;
  e = node(Op::any, pos, std::move(e));
  while (skip_name("or")) e->kids.push_back(both());
  seal(*e);
  return e;
}

ExprPtr Parser::both() {
  const uint32_t pos = now().pos;
  ExprPtr e = negation();
  if (!is_name("and")) return e;
  e = node(Op::all, pos, std::move(e));
  while (skip_name("and")) e->kids.push_back(negation());
  seal(*e);
  return e;
}

ExprPtr Parser::negation() {
  if (!is_name("not")) return comparison();
  const Nest nest(*this);
  const uint32_t pos = take().pos;
  return node(Op::negate, pos, negation());
}

ExprPtr Parser::comparison() {
  struct Row { Tok token; Rel rel; };
  static constexpr Row kRows[] = {{Tok::eq, Rel::eq}, {Tok::ne, Rel::ne}, {Tok::lt, Rel::lt},
                                  {Tok::le, Rel::le}, {Tok::gt, Rel::gt}, {Tok::ge, Rel::ge}};
  const uint32_t pos = now().pos;
  ExprPtr first = sum();
  ExprPtr e;
  const auto more = [&](Rel rel) {
    if (!e) e = node(Op::compare, pos, std::move(first));
    e->relations.push_back(rel);
    e->kids.push_back(sum());
  };
  while (true) {
    const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return is(r.token); });
    if (row != std::end(kRows)) take(), more(row->rel);
    else if (skip_name("in")) more(Rel::in);
    else if (is_name("not") && look().type == Tok::name && look().value == "in") take(), take(), more(Rel::not_in);
    else break;
  }
  if (!e) return first;
  seal(*e);
  return e;
}

ExprPtr Parser::sum() {
  uint32_t pos = now().pos;
  ExprPtr e = concat();
  while (is(Tok::add) || is(Tok::sub)) {
    const Op op = take().type == Tok::add ? Op::add : Op::sub;
    ExprPtr right = concat();
    e = node(op, pos, std::move(e), std::move(right));
    pos = now().pos;
  }
  return e;
}

ExprPtr Parser::concat() {
  const uint32_t pos = now().pos;
  ExprPtr e = product();
  if (!is(Tok::tilde)) return e;
  e = node(Op::concat, pos, std::move(e));
  while (skip(Tok::tilde)) e->kids.push_back(product());
  seal(*e);
  return e;
}

ExprPtr Parser::product() {
  uint32_t pos = now().pos;
  ExprPtr e = power();
  while (is(Tok::mul) || is(Tok::div) || is(Tok::floor_div) || is(Tok::mod)) {
    const Tok t = take().type;
    const Op op = t == Tok::mul ? Op::mul : t == Tok::div ? Op::div : t == Tok::floor_div ? Op::floor_div : Op::mod;
    ExprPtr right = power();
    e = node(op, pos, std::move(e), std::move(right));
    pos = now().pos;
  }
  return e;
}

ExprPtr Parser::power() {
  uint32_t pos = now().pos;
  ExprPtr e = unary();
  while (skip(Tok::pow)) {
    ExprPtr right = unary();
    e = node(Op::pow, pos, std::move(e), std::move(right));
    pos = now().pos;
  }
  return e;
}

ExprPtr Parser::unary(bool with_filter) {
  ExprPtr e;
  if (is(Tok::sub) || is(Tok::add)) {
    const Nest nest(*this);
    const Token& t = take();
    e = node(t.type == Tok::sub ? Op::minus : Op::plus, t.pos, unary(false));
  } else {
    e = primary();
  }
  e = postfix(std::move(e));
  return with_filter ? filters(std::move(e)) : std::move(e);
}

ExprPtr Parser::primary() {
  const Token& t = now();
  const auto constant = [&](Value v) {
    ExprPtr e = node(Op::constant, t.pos);
    e->constant = std::move(v);
    return e;
  };
  switch (t.type) {
    case Tok::name: {
      take();
      if (t.value == "true" || t.value == "True") return constant(Value::boolean(true));
      if (t.value == "false" || t.value == "False") return constant(Value::boolean(false));
      if (t.value == "none" || t.value == "None") return constant(Value::none());
      ExprPtr e = node(Op::name, t.pos);
      e->name = t.value;
      return e;
    }
    case Tok::string: {
      std::string s;
      while (is(Tok::string)) s += take().value;
      return constant(make_literal(std::move(s)));
    }
    case Tok::integer: {
      take();
      Value v;
      parse_int(t.value, 0, v);
      return constant(v);
    }
    case Tok::real: {
      take();
      double d = 0;
      parse_real(t.value, d);
      return constant(Value::real(d));
    }
    case Tok::lparen: {
      take();
      ExprPtr e = tuple(true, true);
      expect(Tok::rparen);
      return e;
    }
    case Tok::lbracket: return list();
    case Tok::lbrace: return dict();
    default: fail("unexpected '" + describe(t) + "'", t.pos);
  }
}

ExprPtr Parser::tuple(bool with_conditional, bool parentheses) {
  ExprPtr e = node(Op::tuple, now().pos);
  bool is_tuple = false;
  while (true) {
    if (!e->kids.empty()) expect(Tok::comma);
    if (tuple_end()) break;
    e->kids.push_back(expression(with_conditional));
    if (!is(Tok::comma)) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!e->kids.empty()) return ExprPtr(std::move(e->kids.front()));
    if (!parentheses) fail("Expected an expression, got '" + describe(now()) + "'", now().pos);
  }
  seal(*e);
  return e;
}

ExprPtr Parser::list() {
  ExprPtr e = node(Op::list, expect(Tok::lbracket).pos);
  while (!is(Tok::rbracket)) {
    if (!e->kids.empty()) expect(Tok::comma);
    if (is(Tok::rbracket)) break;
    e->kids.push_back(expression());
  }
  expect(Tok::rbracket);
  seal(*e);
  return e;
}

ExprPtr Parser::dict() {
  ExprPtr e = node(Op::dict, expect(Tok::lbrace).pos);
  while (!is(Tok::rbrace)) {
    if (!e->kids.empty()) expect(Tok::comma);
    if (is(Tok::rbrace)) break;
    e->kids.push_back(expression());
    expect(Tok::colon);
    e->kids.push_back(expression());
  }
  expect(Tok::rbrace);
  seal(*e);
  return e;
}

ExprPtr Parser::postfix(ExprPtr e) {
  while (true) {
    if (is(Tok::dot) || is(Tok::lbracket)) e = subscript(std::move(e));
    else if (is(Tok::lparen)) e = call(std::move(e));
    else return e;
  }
}

ExprPtr Parser::filters(ExprPtr e) {
  while (true) {
    if (is(Tok::pipe)) e = filter(std::move(e), false);
    else if (is_name("is")) e = test(std::move(e));
    else if (is(Tok::lparen)) e = call(std::move(e));
    else return e;
  }
}

ExprPtr Parser::subscript(ExprPtr e) {
  const Token& t = take();
  if (t.type == Tok::dot) {
    const Token& field = take();
    if (field.type == Tok::name) {
      ExprPtr out = node(Op::attribute, t.pos, std::move(e));
      out->name = field.value;
      return out;
    }
    if (field.type != Tok::integer) fail("expected name or number", field.pos);
    ExprPtr index = node(Op::constant, field.pos);
    parse_int(field.value, 0, index->constant);
    return node(Op::item, t.pos, std::move(e), std::move(index));
  }
  ExprPtr index = node(Op::tuple, t.pos);
  while (!is(Tok::rbracket)) {
    if (!index->kids.empty()) expect(Tok::comma);
    index->kids.push_back(subscribed());
  }
  expect(Tok::rbracket);
  seal(*index);
  if (index->kids.size() == 1) index = ExprPtr(std::move(index->kids.front()));
  return node(Op::item, t.pos, std::move(e), std::move(index));
}

ExprPtr Parser::subscribed() {
  const uint32_t pos = now().pos;
  ExprPtr start, stop, step;
  const auto here = [&] { return !is(Tok::colon) && !is(Tok::rbracket) && !is(Tok::comma); };
  if (!is(Tok::colon)) {
    start = expression();
    if (!is(Tok::colon)) return start;
  }
  take();
  if (here()) stop = expression();
  if (skip(Tok::colon) && here()) step = expression();
  return node(Op::slice, pos, std::move(start), std::move(stop), std::move(step));
}

std::unique_ptr<CallArgs> Parser::call_args() {
  auto args = std::make_unique<CallArgs>();
  const uint32_t pos = expect(Tok::lparen).pos;
  const auto ensure = [&](bool ok) { if (!ok) fail("invalid syntax for function call expression", pos); };
  bool comma = false;
  while (!is(Tok::rparen)) {
    if (comma) {
      expect(Tok::comma);
      if (is(Tok::rparen)) break;
    }
    comma = true;
    if (is(Tok::mul)) {
      ensure(!args->star && !args->star_star);
      take();
      args->star = expression();
    } else if (is(Tok::pow)) {
      ensure(!args->star_star);
      take();
      args->star_star = expression();
    } else if (is(Tok::name) && look().type == Tok::assign) {
      ensure(!args->star_star);
      const Token& name = take();
      take();
      for (const auto& [n, v] : args->named)
        if (n == name.value) fail("keyword argument repeated: " + n, name.pos);
      args->named.emplace_back(name.value, expression());
    } else {
      ensure(!args->star && !args->star_star && args->named.empty());
      args->positional.push_back(expression());
    }
  }
  expect(Tok::rparen);
  return args;
}

ExprPtr Parser::call(ExprPtr callee) {
  ExprPtr e = node(Op::call, now().pos);
  e->kids.push_back(std::move(callee));
  e->args = call_args();
  seal(*e);
  return e;
}

std::string Parser::dotted_name() {
  std::string name = expect(Tok::name).value;
  while (skip(Tok::dot)) name += "." + expect(Tok::name).value;
  return name;
}

// With start_inline the first filter has no pipe ({% filter upper %}); a null subject stands for the text of the block.
ExprPtr Parser::filter(ExprPtr subject, bool start_inline) {
  ExprPtr e = std::move(subject);
  while (is(Tok::pipe) || start_inline) {
    if (!start_inline) take();
    start_inline = false;
    ExprPtr f = node(Op::filter, now().pos);
    f->name = dotted_name();
    f->kids.push_back(std::move(e));
    if (is(Tok::lparen)) f->args = call_args();
    seal(*f);
    e = std::move(f);
  }
  return e;
}

ExprPtr Parser::test(ExprPtr subject) {
  ExprPtr e = node(Op::test, take().pos);
  const bool negated = skip_name("not");
  e->name = dotted_name();
  e->kids.push_back(std::move(subject));
  const bool operand =
      is(Tok::name) || is(Tok::string) || is(Tok::integer) || is(Tok::real) || is(Tok::lbracket) || is(Tok::lbrace);
  if (is(Tok::lparen)) {
    e->args = call_args();
  } else if (operand && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) fail("You cannot chain multiple tests with is", now().pos);
    e->args = std::make_unique<CallArgs>();
    e->args->positional.push_back(postfix(primary()));
  }
  seal(*e);
  if (!negated) return e;
  const uint32_t pos = e->pos;
  return node(Op::negate, pos, std::move(e));
}

}  // namespace isotope::text::jinja
