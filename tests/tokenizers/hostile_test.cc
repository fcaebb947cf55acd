// Damaged and hostile tokenizer files give errors that name what is wrong; they never crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "golden_files.h"

namespace isotope::text {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Result<std::unique_ptr<Tokenizer>> create(const json& j) {
  VocabSource source;
  source.tokenizer_json = j.dump();
  return Tokenizer::create(source);
}

/// A tokenizer of a few letters.
json small() {
  return json::parse(R"({"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":null,
    "model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"<unk>":3},"merges":[["a","b"]],"unk_token":"<unk>"}})");
}

struct BadCase {
  const char* path;    ///< JSON pointer
  json value;
  const char* names;   ///< what the message must contain
};

TEST(HostileTokenizer, ErrorsNameTheComponent) {
  const BadCase cases[] = {
      {"/normalizer", {{"type", "Foo"}}, "normalizer 'Foo'"},
      {"/pre_tokenizer", {{"type", "Foo"}}, "pre-tokenizer 'Foo'"},
      {"/post_processor", {{"type", "Foo"}}, "post-processor 'Foo'"},
      {"/decoder", {{"type", "Foo"}}, "decoder 'Foo'"},
      {"/model/type", "Foo", "model 'Foo'"},
      {"/version", "2.0", "version"},
      {"/model/dropout", 0.5, "dropout"},
      {"/model/merges/0", {"a", "zz"}, "zz"},
      {"/model/merges/0", "a", "merge 0"},
      {"/model/merges/0", {1, 2}, "merge 0"},
      {"/model/merges", 5, "merges"},
      {"/model/unk_token", "zz", "zz"},
      {"/model/vocab/a", -1, "out of range"},
      {"/model/vocab/a", 1e9, "must be an integer"},
      {"/model/vocab/a", 1000000000, "out of range"},
      {"/model/vocab/a", "x", "must be an integer"},
      {"/model/vocab", {1, 2}, "vocab"},
      {"/added_tokens", 7, "added_tokens"},
      {"/added_tokens", {{{"id", 0}}}, "content"},
      {"/added_tokens", {{{"content", std::string(5000, 'x')}}}, "512"},
      {"/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "!!"}}, "base64"},
      {"/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "/////w=="}}, "header"},
      {"/normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "("}}}, {"content", ""}}, "'('"},
      {"/normalizer", {{"type", "Strip"}}, "strip_left"},
      {"/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Sideways"}, {"invert", false}}, "Sideways"},
      {"/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "ab"}}, "replacement"},
      {"/decoder", {{"type", "Strip"}, {"content", ""}, {"start", 0}, {"stop", 0}}, "content"},
      {"/post_processor", {{"type", "TemplateProcessing"}, {"single", {{{"SpecialToken", {{"id", "<s>"}}}}}}, {"special_tokens", json::object()}}, "<s>"},
      {"/post_processor", {{"type", "BertProcessing"}, {"cls", {"a", -4}}, {"sep", {"a", 1}}}, "-4"},
  };
  ASSERT_TRUE(create(small()));
  for (const BadCase& c : cases) {
    json j = small();
    j[json::json_pointer(c.path)] = c.value;
    const auto made = create(j);
    ASSERT_FALSE(made) << c.path << " " << c.value;
    EXPECT_THAT(made.error().message(), HasSubstr(c.names)) << c.path << " " << c.value;
    EXPECT_FALSE(made.error().source.empty());
    EXPECT_FALSE(made.error().remedy.empty());
  }
}

TEST(HostileTokenizer, DeepNestingIsRefused) {
  for (const auto& [section, list] : {std::pair{"normalizer", "normalizers"}, {"pre_tokenizer", "pretokenizers"}, {"decoder", "decoders"}, {"post_processor", "processors"}}) {
    json j = small(), deep = {{"type", "Sequence"}, {list, json::array()}};
    for (int i = 0; i < 200; i++) deep = {{"type", "Sequence"}, {list, {deep}}};
    j[section] = deep;
    EXPECT_FALSE(create(j)) << section;
  }
}

/// Every value of real files replaced by values of other types, and files cut anywhere.
TEST(HostileTokenizer, NoDamageCrashes) {
  const json values[] = {nullptr, true, -1, 1e300, "", "\u00e9", json::array(), json::object(), json::array({1, 2}), 4294967296, 16777215};
  std::mt19937 random(9);
  for (const std::string& name : golden::names()) {
    json whole = json::parse(golden::read(golden::kFolder / name / "tokenizer.json"));
    json& vocab = whole["model"]["vocab"];  // a few entries are enough
    if (vocab.is_array()) vocab.erase(vocab.begin() + 20, vocab.end());
    whole["model"].erase("merges");
    whole["model"]["merges"] = json::array();
    const json flat = whole.flatten();
    for (const auto& [path, old] : flat.items()) {
      if (random() % 4 && path.find("/vocab/") != std::string::npos) continue;
      json j = whole;
      j[json::json_pointer(path)] = values[random() % std::size(values)];
      if (const auto made = create(j)) {
        (*made)->encode("Hello <s> 你好 \xff 123", true, true);
        (*made)->decode(std::vector<int32_t>{0, 1, 5, 100, 1 << 24}, true);
      }
    }
    const std::string text = whole.dump();
    for (int i = 0; i < 50; i++) {
      VocabSource source;
      source.tokenizer_json = text.substr(0, random() % text.size());
      if (!source.tokenizer_json.empty()) EXPECT_FALSE(Tokenizer::create(source));
    }
  }
}

VocabSource facts() {
  VocabSource v;
  v.gguf_model = "llama";
  v.tokens = {"<unk>", "<s>", "</s>", "a", "b", "ab", "\xE2\x96\x81"};
  v.scores = {0, 0, 0, -1, -2, -3, -4};
  v.token_types = {2, 3, 3, 1, 1, 1, 1};
  v.bos_id = 1, v.eos_id = 2, v.unk_id = 0;
  return v;
}

TEST(HostileTokenizer, GgufFactsAreChecked) {
  ASSERT_TRUE(Tokenizer::create(facts()));
  const std::pair<const char*, void (*)(VocabSource&)> cases[] = {
      {"tokenizer.ggml.model", [](VocabSource& v) { v.gguf_model = "rwkv"; }},
      {"tokenizer.ggml.pre", [](VocabSource& v) { v.gguf_model = "gpt2", v.gguf_pre = "nobody-knows"; }},
      {"tokenizer.ggml.tokens", [](VocabSource& v) { v.tokens.clear(); }},
      {"tokenizer.ggml.scores", [](VocabSource& v) { v.scores.pop_back(); }},
      {"tokenizer.ggml.scores", [](VocabSource& v) { v.scores.clear(); }},
      {"tokenizer.ggml.token_type", [](VocabSource& v) { v.token_types.push_back(1); }},
      {"tokenizer.ggml.bos_token_id", [](VocabSource& v) { v.bos_id = 7; }},
      {"tokenizer.ggml.eos_token_id", [](VocabSource& v) { v.eos_id = -2; }},
      {"tokenizer.ggml.merges", [](VocabSource& v) { v.gguf_model = "gpt2", v.gguf_pre = "gpt-2", v.merges = {"ab"}; }},
      {"precompiled_charsmap", [](VocabSource& v) { v.gguf_model = "t5", v.precompiled_charsmap = "\x08"; }},
  };
  for (const auto& [names, spoil] : cases) {
    VocabSource v = facts();
    spoil(v);
    const auto made = Tokenizer::create(v);
    ASSERT_FALSE(made) << names;
    EXPECT_THAT(made.error().message(), HasSubstr(names));
  }
}

TEST(HostileTokenizer, OddGgufVocabulariesLoad) {
  for (const char* model : {"llama", "t5", "bert", "gpt2"}) {
    VocabSource v = facts();
    v.gguf_model = model;
    v.gguf_pre = "gpt-2";
    v.tokens[3] = "\xff\xfe";                       // no UTF-8
    v.tokens[4] = "";
    v.tokens[5] = v.tokens[6];                      // twice the same
    v.scores[3] = std::numeric_limits<float>::quiet_NaN();
    v.scores[4] = std::numeric_limits<float>::infinity();
    v.token_types[6] = 77;
    const auto made = Tokenizer::create(v);
    ASSERT_TRUE(made) << made.error().message();
    const auto ids = (*made)->encode("ab \xff<s> aabb", true, true);
    (*made)->decode(ids, false);
  }
}

}  // namespace
}  // namespace isotope::text
