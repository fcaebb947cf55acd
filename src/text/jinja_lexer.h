// Cuts a template into tokens, with the white-space rules of trim_blocks and lstrip_blocks.
#pragma once

#include <string>
#include <vector>

#include "text/jinja_value.h"

namespace isotope::text::jinja {

enum class Tok : uint8_t {
  data,
  block_begin,
  block_end,
  variable_begin,
  variable_end,
  name,
  string,
  integer,
  real,
  eof,
  add,
  sub,
  div,
  floor_div,
  mul,
  mod,
  pow,
  tilde,
  lbracket,
  rbracket,
  lparen,
  rparen,
  lbrace,
  rbrace,
  eq,
  ne,
  gt,
  ge,
  lt,
  le,
  assign,
  dot,
  colon,
  pipe,
  comma,
  semicolon
};

struct Token {
  Tok type;
  uint32_t pos;
  std::string value;  ///< data, names and strings (unescaped); the spelling of numbers
};

const char* describe(Tok t);                ///< as Jinja's messages call it
std::string describe(const Token& t);

/// `source` must have its newlines normalised. Ends with one eof token. Throws Failure{syntax}.
std::vector<Token> tokenize(const std::string& source);
/// \r\n and \r become \n; one newline at the very end goes.
std::string normalize_newlines(std::string_view source);

}  // namespace isotope::text::jinja
