#include "text/jinja_parser.h"

#include <algorithm>

namespace isotope::text::jinja {
namespace {

std::string quoted_list(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "'" : " or '") + n + "'";
  return out;
}

Stmt make(Tag tag, uint32_t pos) {
  Stmt s;
  s.tag = tag;
  s.pos = pos;
  return s;
}

}  // namespace

void Parser::fail(std::string what, uint32_t pos, Fault fault) { raise(fault, std::move(what), pos); }

const Token& Parser::expect(Tok t) {
  if (is(t)) return take();
  if (is(Tok::eof)) fail("unexpected end of template, expected '" + std::string(describe(t)) + "'.", now().pos);
  fail("expected token '" + std::string(describe(t)) + "', got '" + describe(now()) + "'", now().pos);
}

void Parser::expect_name(std::string_view name) {
  if (skip_name(name)) return;
  if (is(Tok::eof)) fail("unexpected end of template, expected '" + std::string(name) + "'.", now().pos);
  fail("expected token '" + std::string(name) + "', got '" + describe(now()) + "'", now().pos);
}

Body Parser::parse() { return sub_parse({}); }

Body Parser::sub_parse(const std::vector<std::string>& ends) {
  const Nest nest(*this);
  Body out;
  while (!is(Tok::eof)) {
    const Token& t = take();
    if (t.type == Tok::data) {
      Stmt s = make(Tag::data, t.pos);
      s.data = make_literal(t.value);
      out.push_back(std::move(s));
    } else if (t.type == Tok::variable_begin) {
      Stmt s = make(Tag::output, now().pos);
      s.exprs.push_back(tuple());
      expect(Tok::variable_end);
      out.push_back(std::move(s));
    } else {
      if (is(Tok::name) && std::find(ends.begin(), ends.end(), now().value) != ends.end()) return out;
      statement(out);
      expect(Tok::block_end);
    }
  }
  return out;
}

Body Parser::body(const std::vector<std::string>& ends) {
  skip(Tok::colon);
  expect(Tok::block_end);
  ends_.push_back(ends);
  Body out = sub_parse(ends);
  if (is(Tok::eof)) {
    std::string what = "Unexpected end of template. Jinja was looking for the following tags: " + quoted_list(ends) + ".";
    if (!open_.empty()) what += " The innermost block that needs to be closed is '" + open_.back() + "'.";
    fail(what, now().pos);
  }
  ends_.pop_back();
  return out;
}

Body Parser::block(const char* end) {
  Body out = body({end});
  take();
  return out;
}

Body Parser::isolated(const char* end) {
  const int loops = std::exchange(loops_, 0);
  Body out = block(end);
  loops_ = loops;
  return out;
}

void Parser::unknown_tag(const Token& t) {
  std::string what = "Encountered unknown tag '" + t.value + "'.";
  if (!ends_.empty()) {
    const auto expected = [&](const std::vector<std::string>& e) { return std::find(e.begin(), e.end(), t.value) != e.end(); };
    const std::string looking = quoted_list(ends_.back());
    what += std::any_of(ends_.begin(), ends_.end(), expected)
                ? " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for " + looking + "."
                : " Jinja was looking for the following tags: " + looking + ".";
  }
  if (!open_.empty()) what += " The innermost block that needs to be closed is '" + open_.back() + "'.";
  fail(what, t.pos);
}

Stmt Parser::refuse(const char* why) {
  fail("the tag '" + now().value + "' is not supported: " + why, now().pos, Fault::unsupported);
}

void Parser::statement(Body& out) {
  if (!is(Tok::name)) fail("tag name expected", now().pos);
  const Token tag = now();
  using Rule = Stmt (Parser::*)();
  struct Row { std::string_view name; Rule rule; };
  static constexpr Row kRows[] = {
      {"if", &Parser::parse_if},       {"for", &Parser::parse_for},         {"set", &Parser::parse_set},
      {"macro", &Parser::parse_macro}, {"call", &Parser::parse_call_block}, {"filter", &Parser::parse_filter_block},
      {"with", &Parser::parse_with},   {"block", &Parser::parse_block},     {"generation", &Parser::parse_generation},
      {"print", &Parser::parse_print}};
  open_.push_back(tag.value);
  if (tag.value == "include" || tag.value == "import" || tag.value == "from" || tag.value == "extends")
    refuse("a chat template is one text and cannot load others");
  if (tag.value == "break" || tag.value == "continue") {
    out.push_back(parse_loop_control(tag.value == "break" ? Tag::break_loop : Tag::continue_loop));
  } else if (tag.value == "autoescape") {
    parse_autoescape(out);
  } else {
    const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.name == tag.value; });
    if (row == std::end(kRows)) {
      open_.pop_back();
      unknown_tag(tag);
    }
    out.push_back((this->*row->rule)());
  }
  open_.pop_back();
}

Stmt Parser::parse_if() {
  Stmt s = make(Tag::branch, take().pos);
  while (true) {
    s.exprs.push_back(tuple(false));
    s.bodies.push_back(body({"elif", "else", "endif"}));
    const std::string end = take().value;
    if (end == "elif") continue;
    if (end == "else") s.bodies.push_back(block("endif")), s.has_else = true;
    return s;
  }
}

Stmt Parser::parse_for() {
  Stmt s = make(Tag::loop, take().pos);
  s.targets.push_back(target(false));
  expect_name("in");
  s.exprs.push_back(tuple(false));
  s.exprs.push_back(skip_name("if") ? expression() : nullptr);
  s.recursive = skip_name("recursive");
  ++loops_;
  s.bodies.push_back(body({"endfor", "else"}));
  --loops_;
  s.bodies.emplace_back();
  if (take().value == "else") s.bodies.back() = block("endfor"), s.has_else = true;
  return s;
}

Stmt Parser::parse_set() {
  Stmt s = make(Tag::set, take().pos);
  s.targets.push_back(target(true));
  if (skip(Tok::assign)) {
    s.exprs.push_back(tuple());
    return s;
  }
  s.tag = Tag::set_block;
  s.exprs.push_back(filter(nullptr, false));
  s.bodies.push_back(block("endset"));
  return s;
}

void Parser::signature(Stmt& s) {
  expect(Tok::lparen);
  while (!is(Tok::rparen)) {
    if (!s.targets.empty()) expect(Tok::comma);
    s.targets.push_back(name_target());
    if (skip(Tok::assign)) s.exprs.push_back(expression());
    else if (!s.exprs.empty()) fail("non-default argument follows default argument", now().pos);
  }
  expect(Tok::rparen);
}

Stmt Parser::parse_macro() {
  Stmt s = make(Tag::macro, take().pos);
  s.name = name_target().name;
  signature(s);
  s.bodies.push_back(isolated("endmacro"));
  return s;
}

Stmt Parser::parse_call_block() {
  Stmt s = make(Tag::call_block, take().pos);
  if (is(Tok::lparen)) signature(s);
  s.call = expression();
  if (s.call->op != Op::call) fail("expected call", s.pos);
  s.bodies.push_back(isolated("endcall"));
  return s;
}

Stmt Parser::parse_filter_block() {
  Stmt s = make(Tag::filter_block, take().pos);
  s.exprs.push_back(filter(nullptr, true));
  s.bodies.push_back(block("endfilter"));
  return s;
}

Stmt Parser::parse_with() {
  Stmt s = make(Tag::with, take().pos);
  while (!is(Tok::block_end)) {
    if (!s.targets.empty()) expect(Tok::comma);
    s.targets.push_back(target(false));
    expect(Tok::assign);
    s.exprs.push_back(expression());
  }
  s.bodies.push_back(block("endwith"));
  return s;
}

Stmt Parser::parse_block() {
  Stmt s = make(Tag::block, take().pos);
  s.name = expect(Tok::name).value;
  s.scoped = skip_name("scoped");
  skip_name("required");
  if (is(Tok::sub))
    fail("Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an underscore instead.",
         now().pos);
  if (std::find(block_names_.begin(), block_names_.end(), s.name) != block_names_.end())
    fail("block '" + s.name + "' defined twice", s.pos);
  block_names_.push_back(s.name);
  has_blocks_ = true;
  s.bodies.push_back(isolated("endblock"));
  skip_name(s.name);
  return s;
}

Stmt Parser::parse_generation() {
  Stmt s = make(Tag::generation, take().pos);
  s.bodies.push_back(isolated("endgeneration"));
  return s;
}

void Parser::parse_autoescape(Body& out) {
  const uint32_t pos = take().pos;
  const ExprPtr on = expression();
  if (on->op != Op::constant || truth(on->constant))
    fail("the tag 'autoescape' is not supported: chat templates write plain text", pos, Fault::unsupported);
  Stmt s = make(Tag::with, pos);  // a scope of its own, nothing else
  s.bodies.push_back(block("endautoescape"));
  out.push_back(std::move(s));
}

Stmt Parser::parse_print() {
  Stmt s = make(Tag::output, take().pos);
  while (!is(Tok::block_end)) {
    if (!s.exprs.empty()) expect(Tok::comma);
    s.exprs.push_back(expression());
  }
  return s;
}

Stmt Parser::parse_loop_control(Tag tag) {
  const Token& t = take();
  if (loops_ == 0) fail(t.value == "break" ? "'break' outside loop" : "'continue' not properly in loop", t.pos);
  return make(tag, t.pos);
}

Target Parser::name_target() {
  const Token& t = expect(Tok::name);
  if (t.value == "true" || t.value == "false" || t.value == "none" || t.value == "True" || t.value == "False" ||
      t.value == "None")
    fail("can't assign to 'name'", t.pos);
  Target out;
  out.pos = t.pos;
  out.name = t.value;
  return out;
}

Target Parser::single_target(bool namespaces) {
  const Token& t = now();
  if (t.type == Tok::lparen) {
    const Nest nest(*this);
    take();
    Target out = target(false);
    expect(Tok::rparen);
    return out;
  }
  if (t.type == Tok::string || t.type == Tok::integer || t.type == Tok::real) fail("can't assign to 'const'", t.pos);
  if (t.type == Tok::lbracket) fail("can't assign to 'list'", t.pos);
  if (t.type == Tok::lbrace) fail("can't assign to 'dict'", t.pos);
  if (t.type != Tok::name) fail("unexpected '" + describe(t) + "'", t.pos);
  if (t.value == "true" || t.value == "false" || t.value == "none" || t.value == "True" || t.value == "False" ||
      t.value == "None")
    fail("can't assign to 'const'", t.pos);
  Target out = name_target();
  if (namespaces && skip(Tok::dot)) {
    out.kind = Target::attribute;
    out.field = expect(Tok::name).value;
  }
  return out;
}

Target Parser::target(bool namespaces) {
  Target out;
  out.pos = now().pos;
  bool is_tuple = false;
  while (true) {
    if (!out.items.empty()) expect(Tok::comma);
    if (tuple_end()) break;
    out.items.push_back(single_target(namespaces));
    if (!is(Tok::comma)) break;
    is_tuple = true;
  }
  if (is_tuple) {
    out.kind = Target::tuple;
    return out;
  }
  if (out.items.empty()) fail("Expected an expression, got '" + describe(now()) + "'", now().pos);
  return Target(std::move(out.items.front()));
}

}  // namespace isotope::text::jinja
