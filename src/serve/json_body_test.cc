#include "serve/json_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace isotope::serve {
namespace {

using testing::HasSubstr;

std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(JsonBody, DepthLimitCountsTheOutermost) {
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth)));
  EXPECT_FALSE(parse_json(nested(kMaxJsonDepth + 1)));
  EXPECT_TRUE(parse_json(nested(3), 3));
  EXPECT_FALSE(parse_json(nested(4), 3));
  for (const size_t depth : {size_t(1000), size_t(100000), size_t(1000000)}) {
    const auto r = parse_json(nested(depth));
    ASSERT_FALSE(r);
    EXPECT_THAT(r.error().what, HasSubstr("deeper than 128"));
    EXPECT_FALSE(parse_json(std::string(depth, '[')));
    EXPECT_FALSE(parse_json(std::string(depth, '{')));
  }
}

TEST(JsonBody, TheLastOfEqualKeysCounts) {
  EXPECT_EQ(dump(*parse_json(R"({"a": 1, "b": 2, "a": 3})")), R"({"a":3,"b":2})");
  std::string wide = "{";
  for (int i = 0; i < 100; ++i) wide += "\"k" + std::to_string(i % 50) + "\": " + std::to_string(i) + (i < 99 ? "," : "}");
  const auto r = parse_json(wide);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->size(), 50u);
  EXPECT_EQ((*r)["k7"], 57);
  EXPECT_EQ(r->begin().key(), "k0");
}

TEST(JsonBody, WideObjectsTakeNoQuadraticTime) {
  std::string wide = "{";
  for (int i = 0; i < 200000; ++i) wide += "\"key" + std::to_string(i) + "\":1,";
  wide.back() = '}';
  EXPECT_EQ(parse_json(wide)->size(), 200000u);  // hours if keys were looked up by walking
}

TEST(JsonBody, SaysWhatIsWrongAndWhere) {
  struct Row {
    const char *text, *what;
  };
  for (const Row& r : {Row{"", "it is empty"}, Row{"{:", "near byte 2"}, Row{"{\"a\": nul}", "neither true, false nor null"},
                       Row{"{\"a\": 01}", "number"}, Row{"{\"a\": 1e}", "number"}, Row{"{\"a\": 100000000000000000000x}", "near byte"}, Row{"{\"a\": \"\xff\"}", "not valid UTF-8"}, Row{R"({"a": "\ud83d"})", "surrogate"},
                       Row{R"({"a": "\udc00x"})", "surrogate"}, Row{"{\"a\": \"x", "does not end"}, Row{"{\"a\": \"\n\"}", "must be escaped"},
                       Row{"{\"a\": NaN}", "near byte 7"}, Row{"{} {}", "syntax"}, Row{"{'a': 1}", "syntax"}}) {
    const auto parsed = parse_json(r.text);
    ASSERT_FALSE(parsed) << r.text;
    EXPECT_THAT(parsed.error().what, HasSubstr(r.what)) << r.text;
  }
}

TEST(JsonBody, KeepsValues) {
  const char* text = R"({"i":-5,"u":18446744073709551615,"d":0.1,"s":"é\u0000😀","b":true,"n":null,"a":[1,{"x":[]}]})";
  EXPECT_EQ(dump(*parse_json(text)), text);
  EXPECT_EQ(dump(*parse_json("5")), "5");
}

TEST(JsonBody, ReadsNumbersBeyondEveryType) {
  const std::string digits(400, '9');
  for (const auto& [text, read] : {std::pair<std::string, const char*>{"1" + std::string(30, '0'), "1e+30"},
                                   {"-9223372036854775809", "-9.223372036854776e+18"},
                                   {"18446744073709551616", "1.8446744073709552e+19"},
                                   {"18446744073709551615", "18446744073709551615"},
                                   {"1e999", "1.7976931348623157e+308"},
                                   {"-" + digits, "-1.7976931348623157e+308"},
                                   {"1e-999", "0.0"}}) {
    const auto r = parse_json(R"({"s": "1e999 \" 99999999999999999999", "n": [)" + text + "]}");
    ASSERT_TRUE(r) << text;
    EXPECT_EQ(dump((*r)["n"]), std::string("[") + read + "]");
    EXPECT_EQ((*r)["s"], "1e999 \" 99999999999999999999");
  }
}

TEST(JsonBody, DumpIsAlwaysValid) {
  EXPECT_EQ(dump(Json("a\xe2\x82")), "\"a\xef\xbf\xbd\"");
  EXPECT_EQ(dump(Json(std::numeric_limits<double>::infinity())), "null");
}

TEST(JsonBody, ShownIsShort) {
  EXPECT_LT(shown(Json(std::string(1000000, 'x'))).size(), 80u);
  EXPECT_EQ(shown(Json::array({1, 2})), "an array of 2");
  EXPECT_EQ(shortened("ééé", 3), "é…");
}

}  // namespace
}  // namespace isotope::serve
