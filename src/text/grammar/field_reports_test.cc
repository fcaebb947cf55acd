// Grammars and schemas that have ended other servers: deep, left-recursive, self-referring, or beyond a limit that nobody named.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/byte_tokenizer.h"
#include "text/grammar/grammar.h"

namespace isotope::text {
namespace {

using Json = nlohmann::ordered_json;
using Kind = GrammarSpec::Kind;
using test::ByteTokenizer;

class FieldReport : public testing::Test {
 protected:
  Result<std::shared_ptr<const Grammar>> compile(Kind kind, Json value) {
    return compiler_->compile({.kind = kind, .value = std::move(value), .at = "field"});
  }
  /// The text of a refusal; "" if it was accepted.
  std::string refusal(Kind kind, Json value) {
    const auto got = compile(kind, std::move(value));
    return got ? "" : got.error().message();
  }
  /// Writes a text token by token; whether all of it was allowed.
  static bool writes(const Grammar& grammar, const std::string& text) {
    const auto mask = grammar.mask();
    std::vector<uint32_t> bits((ByteTokenizer::kSize + 31) / 32);
    for (const char c : text) {
      const auto token = int32_t(static_cast<unsigned char>(c));
      if (mask->fill(bits) && !(bits[size_t(token) / 32] >> (token % 32) & 1)) return false;
      if (!mask->accept(token)) return false;
    }
    return true;
  }
  std::unique_ptr<GrammarCompiler> compiler_ =
      GrammarCompiler::create(ByteTokenizer(), ByteTokenizer::kSize, {ByteTokenizer::kEos}, {}, {.compile_ms = 8000});
};

TEST_F(FieldReport, DeepAndLeftRecursiveGrammars) {  // G14
  EXPECT_THAT(refusal(Kind::ebnf, "root ::= " + std::string(60'000, '(')), testing::HasSubstr("field"));
  EXPECT_THAT(refusal(Kind::ebnf, "root ::= " + std::string(60'000, '(') + "\"a\"" + std::string(60'000, ')')), testing::HasSubstr("field"));
  EXPECT_THAT(refusal(Kind::ebnf, "rout ::= \"x\""), testing::HasSubstr("root"));
  const auto left = compile(Kind::ebnf, "root ::= root \"a\" | \"b\"");  // legal where the automaton allows it, else refused
  if (left) {
    EXPECT_TRUE(writes(**left, "baaa"));
    EXPECT_FALSE(writes(**left, "ab"));
  }
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 5000; ++i) chain += fmt::format("r{} ::= r{}\n", i, i + 1);
  const auto chained = compile(Kind::ebnf, chain + "r5000 ::= \"x\"\n");
  if (chained) {
    EXPECT_TRUE(writes(**chained, "x"));
  } else {
    EXPECT_THAT(chained.error().source, testing::StartsWith("field"));
  }
  EXPECT_TRUE(compile(Kind::ebnf, "root ::= \"still here\""));
}

TEST_F(FieldReport, SchemasThatReferToThemselves) {  // G15
  const auto schema = [](const char* text) { return Json::parse(text); };
  EXPECT_NE(refusal(Kind::json_schema, schema(R"({"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/A"}}})")), "");
  EXPECT_NE(refusal(Kind::json_schema, schema(R"({"$ref":"#/$defs/A","$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}}})")), "");
  EXPECT_THAT(refusal(Kind::json_schema, schema(R"({"$ref":"#/$defs/none"})")), testing::HasSubstr("points to no schema"));
  EXPECT_THAT(refusal(Kind::json_schema, schema(R"({"$ref":"https://example.com/schema.json"})")), testing::HasSubstr("reference"));
  const auto list = compile(Kind::json_schema, schema(R"({"$ref":"#/$defs/L","$defs":{"L":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/L"},{"type":"null"}]}},)"
                                                      R"("required":["next"],"additionalProperties":false}}})"));
  ASSERT_TRUE(list) << list.error().message();
  EXPECT_TRUE(writes(**list, R"({"next":{"next":{"next":null}}})"));
  EXPECT_FALSE(writes(**list, R"({"next":{"next":3)"));
  EXPECT_NE(refusal(Kind::json_schema, {{"type", "string"}, {"pattern", std::string(50'000, '(')}}), "");
  EXPECT_NE(refusal(Kind::json_schema, {{"type", "string"}, {"pattern", std::string(50'000, '(') + "a" + std::string(50'000, ')')}}), "");
  EXPECT_NE(refusal(Kind::regex, std::string(50'000, '(') + "a" + std::string(50'000, ')')), "");
}

TEST_F(FieldReport, LengthsHaveNoHiddenLimit) {  // G16
  for (const int n : {1999, 2000, 2001, 65536}) {
    const Json nested = {{"type", "object"},
                         {"properties", {{"a", {{"type", "object"}, {"properties", {{"s", {{"type", "string"}, {"maxLength", n}}}}}, {"required", {"s"}}, {"additionalProperties", false}}}}},
                         {"required", {"a"}},
                         {"additionalProperties", false}};
    const auto got = compile(Kind::json_schema, nested);
    if (!got) {
      EXPECT_THAT(got.error().message(), testing::HasSubstr("maxLength")) << n;
      continue;
    }
    EXPECT_TRUE(writes(**got, "{\"a\":{\"s\":\"" + std::string(size_t(std::min(n, 2001)), 'x') + (n <= 2001 ? "\"}}" : "")));
    if (n <= 2001) EXPECT_FALSE(writes(**got, "{\"a\":{\"s\":\"" + std::string(size_t(n) + 1, 'x')));
  }
  Json properties = Json::object();
  for (int i = 0; i < 30; ++i) properties["tool" + std::to_string(i)] = {{"type", "object"}, {"properties", {{"s", {{"type", "string"}, {"maxLength", 2000}}}}}, {"required", {"s"}}};
  const auto many = compile(Kind::json_schema, {{"type", "object"}, {"properties", properties}});
  EXPECT_TRUE(many) << many.error().message();
}

}  // namespace
}  // namespace isotope::text
