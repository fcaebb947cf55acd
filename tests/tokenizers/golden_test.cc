// Id for id against Hugging Face tokenizers 0.23: encodings, decodings and streams of small tokenizers in the configurations that published models have.
// golden/ is made by make_goldens.py.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden_files.h"
#include "text/detokenizer.h"
#include "text/unicode.h"

namespace isotope::text {
namespace {

using nlohmann::json;
class Golden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    tok_ = golden::load(GetParam());
    ASSERT_TRUE(tok_);
    golden_ = json::parse(golden::read(golden::kFolder / GetParam() / "golden.json"));
    strings_ = json::parse(golden::read(golden::kFolder / "strings.json"));
  }
  std::unique_ptr<Tokenizer> tok_;
  json golden_, strings_;
};

using Ids = std::vector<int32_t>;

TEST_P(Golden, EncodesIdForId) {
  for (size_t i = 0; i < strings_.size(); i++) {
    const std::string text = strings_[i];
    const json& want = golden_["encode"][i];
    const Ids plain = want["ids"].get<Ids>(), special = want.contains("ids_special") ? want["ids_special"].get<Ids>() : plain;
    EXPECT_EQ(tok_->encode(text, false, true), plain) << i << ": " << json(text);
    EXPECT_EQ(tok_->encode(text, true, true), special) << i << ": " << json(text);
  }
}

TEST_P(Golden, DecodesAsPublished) {
  for (size_t i = 0; i < strings_.size(); i++) {
    const json& want = golden_["encode"][i];
    const Ids ids = want["ids"].get<Ids>(), special = want.contains("ids_special") ? want["ids_special"].get<Ids>() : ids;
    const std::string text = want["dec"].is_boolean() ? strings_[i].get<std::string>() : want["dec"].get<std::string>();
    EXPECT_EQ(tok_->decode(ids, false, InvalidBytes::as_published), text) << i;
    EXPECT_EQ(tok_->decode(special, true, InvalidBytes::as_published), want.contains("dec_skip") ? want["dec_skip"].get<std::string>() : text) << i;
  }
  for (const json& want : golden_["decode"]) {
    const Ids ids = want["ids"].get<Ids>();
    EXPECT_EQ(tok_->decode(ids, false, InvalidBytes::as_published), want["dec"].get<std::string>()) << want["ids"];
    if (want.contains("dec_skip")) EXPECT_EQ(tok_->decode(ids, true, InvalidBytes::as_published), want["dec_skip"].get<std::string>()) << want["ids"];
  }
}

/// The reference's stream gives the same text, up to what it still holds at the end.
TEST_P(Golden, StreamsTheSameText) {
  for (const json& want : golden_["stream"]) {
    const Ids ids = want["ids"].get<Ids>();
    const bool skip = want["skip"];
    Detokenizer stream(*tok_, skip);
    std::string text, reference;
    for (const int32_t id : ids) {
      const std::string piece = stream.add(id);
      EXPECT_TRUE(valid_utf8(piece));
      text += piece;
    }
    text += stream.finish();
    for (const json& chunk : want["chunks"])
      if (chunk.is_string()) reference += chunk.get<std::string>();
    EXPECT_TRUE(text.starts_with(reference)) << json(text) << " against " << json(reference);
    EXPECT_EQ(text, tok_->decode(ids, skip));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(golden::names()), [](const auto& i) { return i.param; });

}  // namespace
}  // namespace isotope::text
