#include "weights/metadata.h"

#include <gtest/gtest.h>

#include "support/gguf_writer.h"
#include "weights/gguf.h"
#include "weights/json.h"

namespace isotope::weights {
namespace {

class GgufMetadata : public testing::Test {
 protected:
  void SetUp() override {
    const int32_t ints[] = {1, -2, 3};
    const float floats[] = {0.5f, 2};
    const uint8_t raw[] = {1, 2, 255};
    test::GgufWriter w;
    w.u32("n", 30)
        .i32("minus", -5)
        .u16("small", 7)
        .u64("big", uint64_t(-1))
        .f32("eps", 1e-5f)
        .f32("whole", 4)
        .boolean("yes", true)
        .string("s", "text");
    w.strings("list", {"a", "", "c"}).i32s("ints", ints).f32s("floats", floats).u8s("raw", raw).strings("none", {});
    file_ = w.bytes();
    auto r = parse_gguf(std::as_bytes(std::span(file_)), file_.size(), "m.gguf");
    ASSERT_TRUE(r && *r);
    m_ = (*r)->metadata;
  }
  std::string file_;
  Metadata m_;
};

TEST_F(GgufMetadata, TypedGetters) {
  EXPECT_EQ(m_.integer("n").value(), 30);
  EXPECT_EQ(m_.integer("minus").value(), -5);
  EXPECT_EQ(m_.integer("small").value(), 7);
  EXPECT_EQ(m_.integer("whole").value(), 4);
  EXPECT_EQ(m_.number("eps").value(), double(1e-5f));
  EXPECT_EQ(m_.number("n").value(), 30.0);
  EXPECT_EQ(m_.number("big").value(), 0x1p64);
  EXPECT_TRUE(m_.boolean("yes").value());
  EXPECT_EQ(m_.string("s").value(), "text");
  EXPECT_EQ(m_.strings("list").value(), (std::vector<std::string_view>{"a", "", "c"}));
  EXPECT_EQ(m_.integers("ints").value(), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(m_.numbers("floats").value(), (std::vector<double>{0.5, 2}));
  EXPECT_EQ(m_.numbers("ints").value(), (std::vector<double>{1, -2, 3}));
  EXPECT_EQ(m_.bytes("raw").value(), "\x01\x02\xff");
  EXPECT_TRUE(m_.strings("none").value().empty());
  EXPECT_EQ(m_.integer_or("absent", 9).value(), 9);
  EXPECT_EQ(m_.string_or("absent", "x").value(), "x");
  EXPECT_TRUE(m_.is_array("ints"));
  EXPECT_FALSE(m_.is_array("n"));
  EXPECT_FALSE(m_.has("absent"));
  EXPECT_EQ(m_.keys().size(), 13u);
}

TEST_F(GgufMetadata, ErrorsNameKeyExpectedAndFoundType) {
  const auto says = [](const Error& e, std::initializer_list<const char*> parts) {
    for (const char* p : parts) EXPECT_NE(e.message().find(p), std::string::npos) << e.message() << " lacks " << p;
    EXPECT_FALSE(e.remedy.empty());
  };
  says(m_.integer("absent").error(), {"'absent'", "missing", "m.gguf"});
  says(m_.integer("s").error(), {"'s'", "string", "integer"});
  says(m_.integer("eps").error(), {"'eps'", "f32", "integer"});
  says(m_.integer("big").error(), {"'big'", "u64", "18446744073709551615"});
  says(m_.string("n").error(), {"'n'", "u32 (30)", "a string"});
  says(m_.boolean("n").error(), {"'n'", "a boolean"});
  says(m_.integer("ints").error(), {"'ints'", "array of i32"});
  says(m_.strings("n").error(), {"'n'", "an array of strings"});
  says(m_.strings("ints").error(), {"array of i32", "an array of strings"});
  says(m_.integers("floats").error(), {"array of f32"});
  says(m_.bytes("ints").error(), {"array of bytes"});
  says(m_.integer_or("s", 1).error(), {"'s'"});  // a wrong type is an error even where a default exists
}

TEST_F(GgufMetadata, OverridesComeFirst) {
  const auto o = m_.with_overrides(
      {{"n", "31"}, {"absent", "\"now here\""}, {"plain", "not json"}, {"s", "null"}, {"tree", R"({"a":{"b":2}})"}});
  ASSERT_TRUE(o);
  EXPECT_EQ(o->integer("n").value(), 31);
  EXPECT_EQ(o->string("absent").value(), "now here");
  EXPECT_EQ(o->string("plain").value(), "not json");
  EXPECT_FALSE(o->has("s"));
  EXPECT_EQ(o->integer("tree.a.b").value(), 2);
  EXPECT_EQ(o->integer("minus").value(), -5);
  EXPECT_EQ(m_.integer("n").value(), 30);
}

TEST_F(GgufMetadata, TextForPeople) {
  EXPECT_EQ(m_.text("eps"), "1e-05");
  EXPECT_EQ(m_.text("ints"), "[1, -2, 3]");
  EXPECT_EQ(m_.text("list"), "[3 elements]");
  EXPECT_EQ(m_.text("s", 2), "te…");
  EXPECT_EQ(m_.type_name("list"), "array of string");
}

constexpr const char* kConfig =
    R"({"hidden_size": 64, "rope_theta": 10000.0, "eps": 1e-5, "tie": false, "act": "silu", "sliding_window": null,
  "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "deep": {"list": [1, 2]}}, "layer_types": ["full", "sliding"], "a.b": 5, "a": {"b": 6},
  "time_step_limit": [0.0, Infinity], "low": -Infinity, "nan": NaN, "text": "Infinity"})";

TEST(JsonMetadata, PathsAndTypes) {
  const auto m = Metadata::from_json(kConfig, "config.json");
  ASSERT_TRUE(m) << m.error().message();
  EXPECT_EQ(m->integer("hidden_size").value(), 64);
  EXPECT_EQ(m->integer("rope_theta").value(), 10000);
  EXPECT_EQ(m->number("eps").value(), 1e-5);
  EXPECT_FALSE(m->boolean("tie").value());
  EXPECT_FALSE(m->has("sliding_window"));
  EXPECT_EQ(m->integer_or("sliding_window", -1).value(), -1);
  EXPECT_EQ(m->string("rope_scaling.rope_type").value(), "llama3");
  EXPECT_EQ(m->integers("rope_scaling.deep.list").value(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(m->strings("layer_types").value(), (std::vector<std::string_view>{"full", "sliding"}));
  EXPECT_EQ(m->integer("a.b").value(), 5);
  EXPECT_EQ(m->numbers("time_step_limit").value()[1], 1.7976931348623157e308);
  EXPECT_LT(m->number("low").value(), -1e308);
  EXPECT_FALSE(m->has("nan"));
  EXPECT_EQ(m->string("text").value(), "Infinity");
  EXPECT_NE(m->integer("rope_scaling").error().message().find("'rope_scaling' is object"), std::string::npos)
      << m->integer("rope_scaling").error().message();
  EXPECT_NE(m->integer("tie").error().message().find("boolean (false)"), std::string::npos);
  EXPECT_EQ(m->with_overrides({{"rope_scaling.factor", "4"}})->number("rope_scaling.factor").value(), 4.0);
}

struct JsonCase {
  const char* name;
  std::string text;
  const char* says;
};
TEST(JsonMetadata, RefusesWhatIsNoConfig) {
  const JsonCase kCases[] = {{"empty", "", "offset"},
                             {"cut", "{\"a\": [1, 2", "offset"},
                             {"array", "[1]", "array"},
                             {"deep", std::string(100000, '[') + std::string(100000, ']'), "deeper than 128"},
                             {"deep_objects",
                              [] {
                                std::string s;
                                for (int i = 0; i < 50000; ++i) s += "{\"a\":";
                                return s;
                              }(),
                              "deeper than 128"},
                             {"not_utf8", "{\"a\": \"\xff\"}", "offset"},
                             {"number_overflow", "{\"a\": 1e999}", "JSON"},
                             {"trailing", "{} {}", "offset"}};
  for (const JsonCase& c : kCases) {
    const auto m = Metadata::from_json(c.text, "config.json");
    ASSERT_FALSE(m) << c.name;
    EXPECT_EQ(m.error().code, Code::data_loss);
    EXPECT_NE(m.error().message().find(c.says), std::string::npos) << m.error().message();
    EXPECT_NE(m.error().source.find("config.json"), std::string::npos);
    EXPECT_FALSE(m.error().remedy.empty());
  }
}

TEST(Names, AreMadeFitForMessages) {
  EXPECT_EQ(quote_name("abc"), "'abc'");
  EXPECT_EQ(quote_name(std::string("a\0\n\x7f", 4)), "'a\\x00\\x0a\\x7f'");
  EXPECT_EQ(quote_name("größe"), "'größe'");
  EXPECT_EQ(quote_name("\xff"), "'\\xff'");
  EXPECT_EQ(quote_name(std::string(79, 'a') + "ö"), "'" + std::string(79, 'a') + "…' (81 bytes)");
  EXPECT_EQ(listed(std::vector<std::string>(25, "x")).size(), 20 * 5 - 2 + std::string(" and 5 more").size());
}

}  // namespace
}  // namespace isotope::weights
