#include "text/grammar/grammar.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/byte_tokenizer.h"

namespace isotope::text {
namespace {

using Json = nlohmann::ordered_json;
using Kind = GrammarSpec::Kind;
using test::ByteTokenizer;

std::unique_ptr<GrammarCompiler> compiler(const GrammarLimits& limits = {}, std::vector<std::string> markup = {}) {
  return GrammarCompiler::create(ByteTokenizer(), ByteTokenizer::kSize + 10, {ByteTokenizer::kEos}, std::move(markup), limits);
}

GrammarSpec spec_of(Kind kind, const std::string& text) {
  const bool json = kind == Kind::json_schema || kind == Kind::choice || kind == Kind::structural_tag;
  return {.kind = kind, .value = kind == Kind::json ? Json() : json ? Json::parse(text) : Json(text), .at = "field"};
}

bool allowed(TokenMask& mask, int32_t token) {
  std::vector<uint32_t> bits((ByteTokenizer::kSize + 10 + 31) / 32);
  if (!mask.fill(bits)) return true;
  return (bits[size_t(token) / 32] >> (token % 32) & 1) != 0;
}

/// Whether the text may be written token by token, and whether it may then end.
bool matches(TokenMask& mask, const std::string& text) {
  for (const char c : text) {
    const int32_t token = static_cast<unsigned char>(c);
    if (mask.finished() || !allowed(mask, token)) return false;
    EXPECT_TRUE(mask.accept(token));
  }
  return mask.finished() || allowed(mask, ByteTokenizer::kEos);
}

struct Case {
  Kind kind;
  const char* grammar;
  std::vector<std::string> yes, no;
};

TEST(Grammar, LetsThroughWhatItSaysAndNothingElse) {
  const std::vector<Case> cases = {
      {Kind::json, "", {"{}", R"({"a": [1, null, "x"]})", "{ \"a\":1 }"}, {"[]", "{", "1", "{} "}},
      {Kind::json_schema, R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string", "maxLength": 2}}, "required": ["a"]})",
       {R"({"a": 1})", R"({"a":-20,"b":"xy"})", "{\n  \"a\": 1\n}"}, {"{}", R"({"b":"x"})", R"({"a":1,"b":"xyz"})", R"({"a":1,"c":2})", R"({"a":1.5})"}},
      {Kind::json_schema, R"({"enum": ["red", "green", 3]})", {"\"red\"", "3"}, {"red", "\"blue\"", "4"}},
      {Kind::json_schema, R"({"type": "string", "enum": ["a", 3]})", {"\"a\""}, {"3"}},
      {Kind::json_schema, R"({"minimum": 3, "type": "integer", "maximum": 12})", {"3", "12", "7"}, {"2", "13", "-3", "30"}},
      {Kind::json_schema, R"({"type": "array", "items": {"type": "boolean"}, "maxItems": 2})", {"[]", "[true]", "[true, false]"}, {"[true,true,true]", "[1]"}},
      {Kind::json_schema, R"({"type": "object"})", {"{}", R"({"x":{"y":[]}})"}, {"[]"}},
      {Kind::json_schema, R"({"type": "array"})", {"[]", "[1,[2]]"}, {"{}"}},
      {Kind::json_schema, R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"n": {"$ref": "#/$defs/node"}}}}})", {"{}", R"({"n": {"n": {}}})"},
       {R"({"n": 1})"}},
      {Kind::json_schema, R"({"type": "string", "pattern": "^[a-c]+$"})", {"\"abc\""}, {"\"d\"", "\"\""}},
      {Kind::json_schema, R"({"type": "string", "pattern": "^é.[^b]$"})", {"\"éac\"", "\"é☃a\""}, {"\"éab\"", "\"éa\"\"", "\"é\\a\"", "\"é\na\"", "\"eab\""}},
      {Kind::json_schema, R"({"type": "string", "pattern": "^[\"\\\\!]]\\ud83d\\ude00$"})", {"\"!]😀\""}, {"\"\"]😀\"", "\"\\]😀\""}},
      {Kind::json_schema, R"({"type": "string", "pattern": "(.{500}){60}|[ -~]|[\\s\\S]\\W\\D"})", {"\"#\"", "\"a-b\""}, {"\"\"\"", "\"\\\"", "\"\n-b\"", "\"a\nb\"", "\"\tbc\""}},
      {Kind::json_schema, R"({"type": "object", "patternProperties": {"^é.$": {"const": 1}}, "minProperties": 1, "additionalProperties": false})", {R"({"éa":1})"}, {R"({"é"":1})", R"({"x":1})"}},
      {Kind::json_schema, R"({"type": "string", "minLength": 2.0, "maxLength": 2})", {"\"ab\""}, {"\"a\""}},
      {Kind::json_schema, R"({"type": "string", "format": "date"})", {"\"2026-11-30\""}, {"\"2026\""}},
      {Kind::json_schema, R"({"type": "object", "required": ["x"], "properties": {"a": {"type": "null"}}})", {R"({"a":null,"x":[1]})", R"({"x":1})"}, {R"({"a":null})"}},
      {Kind::json_schema, R"({"type": ["integer", "null"]})", {"1", "null"}, {"true"}},
      {Kind::json_schema, R"({"maxLength": 1})", {"\"a\""}, {"1", "\"ab\"", "\"\t\"", "\"\x01\""}},
      {Kind::json_schema, R"({"type": "string"})", {"\"a\"", "\"\\t\""}, {"\"\t\"", "\"\x1f\""}},
      {Kind::regex, "\\x41BC[\\x21474836481a-\\x63]\\x5d", {"ABC7]", "ABCb]", "ABC!]"}, {"A", "ABCd]", "\xE4\x86\xBC"}},
      {Kind::regex, "\\u{10437}", {"\xF0\x90\x90\xB7"}, {"\\u", "u"}},
      {Kind::regex, "\\xe91[\\x921-3]", {"é12", "é1\xC2\x92"}, {"é1", "é14", "\xE0\xBA\x91" "2"}},
      {Kind::json_schema, R"({"type": "string", "pattern": "^é1[é2]$"})", {"\"é12\""}, {"\"é1\"", "\"é13\""}},
      {Kind::regex, "[0-9]{3}-(a|bc)", {"123-a", "999-bc"}, {"12-a", "123-b", "123-ab"}},
      {Kind::choice, R"(["yes", "yesterday", "no"])", {"yes", "yesterday", "no"}, {"y", "yeste", "noo", "nope"}},
      {Kind::ebnf, "root ::= \"a\" root \"b\" | \"\"", {"", "ab", "aabb"}, {"aab", "b"}},
      {Kind::structural_tag, R"({"type": "structural_tag", "format": {"type": "tag", "begin": "<x>", "content": {"type": "json_schema", "json_schema": {"type": "integer"}}, "end": "</x>"}})",
       {"<x>12</x>"}, {"12", "<x>a</x>"}},
      {Kind::regex, "\\ud83d\\ude00[\\ud83d\\ude00-\\ud83d\\ude02]", {"😀😂"}, {"😀", "😀😃"}},
      {Kind::regex, "é+", {"é", "éé"}, {"e", "\xC3"}},
  };
  const auto all = compiler();
  for (const Case& c : cases) {
    const auto grammar = all->compile(spec_of(c.kind, c.grammar));
    ASSERT_TRUE(grammar.has_value()) << c.grammar << ": " << grammar.error().message();
    for (const auto& text : c.yes) EXPECT_TRUE(matches(*(*grammar)->mask(), text)) << c.grammar << " and " << text;
    for (const auto& text : c.no) EXPECT_FALSE(matches(*(*grammar)->mask(), text)) << c.grammar << " and " << text;
  }
}

TEST(Grammar, IsFinishedWhenNothingCanFollow) {
  const auto all = compiler();
  const auto mask = (*all->compile(spec_of(Kind::choice, R"(["yes", "yesterday"])")))->mask();
  EXPECT_TRUE(matches(*mask, "yes"));
  EXPECT_FALSE(mask->finished()) << "yesterday may still come";
  EXPECT_TRUE(matches(*mask, "terday"));
  EXPECT_TRUE(mask->finished());
  mask->rollback(1);
  EXPECT_FALSE(mask->finished());
  EXPECT_TRUE(allowed(*mask, 'y'));
  EXPECT_FALSE(allowed(*mask, 'x'));
  EXPECT_FALSE(allowed(*mask, ByteTokenizer::kEos)) << "the end comes only when the grammar is complete";
}

TEST(Grammar, RollsBackToWhereItWas) {
  const auto all = compiler();
  const auto grammar = *all->compile(spec_of(Kind::json_schema, R"({"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}},"required":["a"]})"));
  const std::string text = R"({"a": [1, 22, 3]})";
  for (size_t cut = 0; cut < text.size(); ++cut) {
    const auto mask = grammar->mask();
    for (size_t i = 0; i < text.size(); ++i) ASSERT_TRUE(mask->accept(text[i])) << i;
    EXPECT_TRUE(mask->finished());
    mask->rollback(int(text.size() - cut));
    EXPECT_TRUE(matches(*mask, text.substr(cut))) << cut;
  }
}

TEST(Grammar, ControlTokensAreForbiddenUnlessTheGrammarAsksForThem) {
  const char* tag = R"({"type": "tag", "begin": "<|im_start|>", "content": {"type": "regex", "pattern": "[a-z]{2}"}, "end": ""})";
  const auto with = (*compiler({}, {"<|im_start|>"})->compile(spec_of(Kind::structural_tag, tag)))->mask();
  EXPECT_TRUE(allowed(*with, ByteTokenizer::kStart));
  EXPECT_FALSE(allowed(*with, ByteTokenizer::kEnd));
  EXPECT_TRUE(with->accept(ByteTokenizer::kStart));
  EXPECT_FALSE(allowed(*with, ByteTokenizer::kStart));
  const auto without = (*compiler()->compile(spec_of(Kind::structural_tag, tag)))->mask();
  EXPECT_FALSE(allowed(*without, ByteTokenizer::kStart));
  EXPECT_TRUE(allowed(*without, '<'));
}

TEST(Grammar, APrefixComesFirst) {
  GrammarSpec spec = spec_of(Kind::json_schema, R"({"type": "integer"})");
  spec.prefix = Json::parse(R"({"type": "tag", "begin": "", "content": {"type": "any_text"}, "end": "</think>"})");
  const auto all = compiler();
  const auto grammar = all->compile(spec);
  ASSERT_TRUE(grammar.has_value()) << grammar.error().message();
  EXPECT_TRUE(matches(*(*grammar)->mask(), "so < 5 {it} is</think>12"));
  EXPECT_FALSE(matches(*(*grammar)->mask(), "so it is"));
  EXPECT_FALSE(matches(*(*grammar)->mask(), "so it is</think>x"));
}

struct Bad {
  Kind kind;
  std::string grammar, source, what;
};

TEST(Grammar, RefusesByName) {
  const auto nested = [](int n, const char* open, const char* middle, const char* close) {
    std::string out;
    for (int i = 0; i < n; ++i) out += open;
    out += middle;
    for (int i = 0; i < n; ++i) out += close;
    return out;
  };
  const std::vector<Bad> cases = {
      {Kind::json_schema, R"({"type": "object", "properties": {"a": {"not": {}}}})", "field.properties.a.not", "'not' is not supported"},
      {Kind::json_schema, R"({"type": "array", "uniqueItems": true})", "field.uniqueItems", "'uniqueItems'"},
      {Kind::json_schema, R"({"type": "array", "contains": {}})", "field.contains", "'contains'"},
      {Kind::json_schema, R"({"if": {}, "then": {}})", "field.if", "'if'"},
      {Kind::json_schema, R"({"allOf": [{}, {}]})", "field.allOf", "allOf"},
      {Kind::json_schema, R"({"type": "number", "multipleOf": 0.5})", "field.multipleOf", "multipleOf"},
      {Kind::json_schema, R"({"type": "integer", "multipleOf": 0.5})", "field", "multipleOf"},
      {Kind::json_schema, R"({"type": "string", "format": "color"})", "field.format", "'color'"},
      {Kind::json_schema, R"({"type": "string", "pattern": "a", "maxLength": 1})", "field.maxLength", "'maxLength' beside"},
      {Kind::json_schema, R"({"type": "widget"})", "field.type", "no type \"widget\""},
      {Kind::json_schema, R"({"$ref": "http://x/y"})", "field.$ref", "reference"},
      {Kind::json_schema, R"({"$ref": "#/$defs/x"})", "field.$ref", "points to no schema"},
      {Kind::json_schema, R"({"$ref": "#"})", "field.$ref", "no value that ends"},
      {Kind::json_schema, R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "field", "oneOf"},
      {Kind::json_schema, R"({"type": "integer", "minimum": 3, "maximum": 1})", "field.minimum", "minimum 3 is above maximum 1"},
      {Kind::json_schema, R"({"type": "array", "items": {"type": "string", "minLength": 3, "maxLength": 1}})", "field.items.minLength", "minLength 3 is above maxLength 1"},
      {Kind::json_schema, R"({"type": "string", "pattern": "a\"b"})", "field.pattern", "a quote"},
      {Kind::json_schema, R"({"type": "string", "pattern": "a\\\\b"})", "field.pattern", "a backslash"},
      {Kind::json_schema, R"({"type": "string", "pattern": "a\\n"})", "field.pattern", "U+000A"},
      {Kind::json_schema, R"({"type": "string", "pattern": "[\"\\\\]"})", "field.pattern", "one of some characters"},
      {Kind::json_schema, R"({"type": "string", "pattern": "é[^]"})", "field.pattern", "empty character class"},
      {Kind::json_schema, R"({"type": "object", "patternProperties": {"\"": {}}})", "field.patternProperties", "a quote"},
      {Kind::json_schema, R"({"type": "string", "pattern": "\\ud83d"})", "field.pattern", "surrogate"},
      {Kind::regex, "[a\\ud83d]", "field", "surrogate"},
      {Kind::regex, "a\\u{110000}", "field", "beyond the last character"},
      {Kind::regex, "[a-z\\u{ffffff}]", "field", "beyond the last character"},
      {Kind::ebnf, "root ::= [\\u0041-\\x21474836481a]", "field", "beyond the last character"},
      {Kind::ebnf, "root ::= \"\\U00110000\"", "field", "beyond the last character"},
      {Kind::structural_tag, R"({"type": "structural_tag", "format": {"type": "grammar", "grammar": "root ::= [\\x110000]"}})", "field", "beyond the last character"},
      {Kind::json_schema, R"({"type": "string", "minLength": -1})", "field.minLength", "at least 0"},
      {Kind::json_schema, R"({"type": "string", "maxLength": 1e14})", "field.maxLength", "at most"},
      {Kind::json_schema, R"({"anyOf": []})", "field.anyOf", "at least one"},
      {Kind::json_schema, R"({"anyOf": [{}], "properties": {}})", "field.properties", "beside"},
      {Kind::json_schema, "false", "field", "false"},
      {Kind::json_schema, "3", "field", "object"},
      {Kind::json_schema, nested(60, R"({"type":"array","items":)", "{}", "}"), "field.items", "deep"},
      {Kind::json_schema, R"x({"type": "string", "pattern": "(?=a)"})x", "field", ""},
      {Kind::json_schema, "{\"type\": \"string\", \"pattern\": \"(\"}", "field", ""},
      {Kind::regex, "a(", "field", ""},
      {Kind::regex, "", "field", "empty"},
      {Kind::regex, "(?<=a)b", "field", ""},
      {Kind::regex, "((a{1000}){1000}){1000}", "field", "repetition"},
      {Kind::regex, "a{1000000}", "field", "repetition"},
      {Kind::regex, nested(100, "(", "a", ")"), "field", "nested"},
      {Kind::ebnf, "root ::= foo", "field", "foo"},
      {Kind::ebnf, "root ::= (", "field", ""},
      {Kind::ebnf, "x ::= \"a\"", "field", "root"},
      {Kind::choice, "[]", "field", "empty"},
      {Kind::choice, R"([""])", "field", "empty"},
      {Kind::structural_tag, R"({"type": "structural_tag"})", "field", ""},
      {Kind::structural_tag, R"({"type": "structural_tag", "format": {"type": "nonsense"}})", "field", ""},
      {Kind::structural_tag, R"({"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {"not": {}}}})", "field.format.json_schema.not", "'not'"},
  };
  const auto all = compiler();
  for (const Bad& b : cases) {
    const auto got = all->compile(spec_of(b.kind, b.grammar));
    ASSERT_FALSE(got.has_value()) << b.grammar.substr(0, 100);
    EXPECT_TRUE(got.error().source.starts_with(b.source)) << got.error().message();
    EXPECT_THAT(got.error().what, testing::HasSubstr(b.what)) << got.error().message();
    EXPECT_TRUE(got.error().code == Code::invalid_argument || got.error().code == Code::unsupported);
  }
}

// Costly and odd texts end in time, one way or the other.
TEST(Grammar, NothingHangs) {
  const auto all = compiler({.compile_ms = 4000, .sequence_ms = 200, .token_ms = 1});
  std::string many = "{\"type\":\"object\",\"properties\":{", ambiguous = "root ::= ";
  for (int i = 0; i < 400; ++i) many += fmt::format("{}\"p{}\":{{\"type\":\"string\",\"maxLength\":1000}}", i ? "," : "", i);
  many += "}}";
  for (int i = 0; i < 30; ++i) ambiguous += "(\"a\" | \"a\" \"a\")* ";
  const std::vector<std::pair<Kind, std::string>> cases = {
      {Kind::json_schema, many},
      {Kind::json_schema, R"({"type":"array","minItems":100000,"items":{"type":"array","minItems":100000,"items":{"type":"string","minLength":100000}}})"},
      {Kind::regex, "(((a*)*)*)*b"},
      {Kind::regex, "(a|aa)*(a|aa)*(a|aa)*c"},
      {Kind::regex, "(.{1,200}x){1,200}"},
      {Kind::regex, "[\\s\\S]*[\\s\\S]*[\\s\\S]*z"},
      {Kind::ebnf, ambiguous},
      {Kind::ebnf, "root ::= root root | \"a\" | \"\""},
      {Kind::ebnf, "root ::= root"},
      {Kind::ebnf, "root ::= a a a a\na ::= b b b b\nb ::= c c c c\nc ::= d d d d\nd ::= \"x\"* \"x\"*"},
  };
  for (const auto& [kind, text] : cases) {
    const auto got = all->compile(spec_of(kind, text));
    if (got) {
      const auto mask = (*got)->mask();  // a sequence that costs too much ends by itself
      std::vector<uint32_t> bits(9);
      for (int i = 0; i < 200 && !mask->finished(); ++i) {
        if (!mask->fill(bits)) bits.assign(9, ~0u);
        int32_t token = -1;
        for (int32_t t = 255; t >= 0; --t) {
          if (bits[size_t(t) / 32] >> (t % 32) & 1) token = t;
        }
        if (token < 0 || !mask->accept(token)) break;
      }
    }
  }
}

TEST(Grammar, ReadyGrammarsAreKept) {
  const auto all = compiler();
  const auto a = *all->compile(spec_of(Kind::regex, "a+")), b = *all->compile(spec_of(Kind::regex, "a+")), c = *all->compile(spec_of(Kind::regex, "b+"));
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_EQ(all->counters().compiled, 2);
  EXPECT_EQ(all->counters().reused, 1);
}

}  // namespace
}  // namespace isotope::text
