// Recursive descent over the tokens, with Jinja's precedences. Unary minus binds tighter than filters, `~` tighter than `+`.
#pragma once

#include <string>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace isotope::text::jinja {

inline constexpr int kMaxSourceNesting = 100;  ///< brackets and blocks inside each other

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : t_(std::move(tokens)) {}
  Body parse();
  bool has_blocks() const { return has_blocks_; }

 private:
  struct Nest;
  const Token& now() const { return t_[i_]; }
  const Token& look() const { return t_[i_ + 1 < t_.size() ? i_ + 1 : i_]; }
  const Token& take() { return t_[now().type == Tok::eof ? i_ : i_++]; }
  bool is(Tok t) const { return now().type == t; }
  bool is_name(std::string_view name) const { return is(Tok::name) && now().value == name; }
  bool skip(Tok t) { return is(t) && (take(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (take(), true); }
  const Token& expect(Tok t);
  void expect_name(std::string_view name);
  [[noreturn]] void fail(std::string what, uint32_t pos, Fault fault = Fault::syntax);

  // statements (jinja_parser.cc)
  Body sub_parse(const std::vector<std::string>& ends);
  Body body(const std::vector<std::string>& ends);   // to one of the end tags, which stays the current token
  Body block(const char* end);                       // to its only end tag, which is taken
  Body isolated(const char* end);                    // the same, where break and continue cannot leave it
  void statement(Body& out);
  [[noreturn]] void unknown_tag(const Token& t);
  Stmt parse_if();
  Stmt parse_for();
  Stmt parse_set();
  Stmt parse_macro();
  Stmt parse_call_block();
  Stmt parse_filter_block();
  Stmt parse_with();
  Stmt parse_block();
  Stmt parse_generation();
  void parse_autoescape(Body& out);
  Stmt parse_print();
  Stmt parse_loop_control(Tag tag);
  Stmt refuse(const char* why);
  void signature(Stmt& s);
  Target target(bool namespaces);
  Target single_target(bool namespaces);
  Target name_target();

  // expressions (jinja_parser_expr.cc)
  ExprPtr expression(bool conditional = true);
  ExprPtr conditional();
  ExprPtr either();
  ExprPtr both();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter = true);
  ExprPtr primary();
  ExprPtr postfix(ExprPtr e);
  ExprPtr filters(ExprPtr e);
  ExprPtr filter(ExprPtr subject, bool start_inline);
  ExprPtr test(ExprPtr subject);
  ExprPtr subscript(ExprPtr e);
  ExprPtr subscribed();
  ExprPtr call(ExprPtr callee);
  ExprPtr list();
  ExprPtr dict();
  ExprPtr tuple(bool conditional = true, bool parentheses = false);
  std::unique_ptr<CallArgs> call_args();
  std::string dotted_name();
  bool tuple_end() const { return is(Tok::variable_end) || is(Tok::block_end) || is(Tok::rparen); }

  ExprPtr node(Op op, uint32_t pos);
  template <class... Kids> ExprPtr node(Op op, uint32_t pos, Kids... kids);
  void seal(Expr& e);  // computes and checks the depth

  std::vector<Token> t_;
  size_t i_ = 0;
  int nest_ = 0, loops_ = 0;
  bool has_blocks_ = false;
  std::vector<std::string> open_;                       // tags that wait for their end
  std::vector<std::vector<std::string>> ends_;          // what each of them waits for
  std::vector<std::string> block_names_;
};

struct Parser::Nest {
  explicit Nest(Parser& p) : p_(p) {
    if (++p_.nest_ > kMaxSourceNesting)
      p_.fail("brackets or blocks are nested more than " + std::to_string(kMaxSourceNesting) + " deep", p_.now().pos);
  }
  ~Nest() { --p_.nest_; }
  Parser& p_;
};

template <class... Kids>
ExprPtr Parser::node(Op op, uint32_t pos, Kids... kids) {
  ExprPtr e = node(op, pos);
  (e->kids.push_back(std::move(kids)), ...);
  seal(*e);
  return e;
}

}  // namespace isotope::text::jinja
