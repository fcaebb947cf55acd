// Streams: whole UTF-8 at every step, and together what decode() gives.
#include <gtest/gtest.h>

#include <random>

#include "golden_files.h"
#include "text/detokenizer.h"
#include "text/unicode.h"

namespace isotope::text {
namespace {

using Ids = std::vector<int32_t>;

class Stream : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    tok_ = golden::load(GetParam());
    ASSERT_TRUE(tok_);
  }
  /// Random ids, rich in byte tokens and ids outside the vocabulary.
  Ids random_ids(std::mt19937& random) const {
    Ids ids;
    const int64_t size = tok_->size();
    for (size_t n = random() % 14; n > 0; n--) {
      const auto kind = random() % 10;
      const int32_t byte = tok_->token_id("<0x00>");
      if (kind < 4 && byte >= 0) ids.push_back(byte + int32_t(random() % 256));
      else if (kind == 4) ids.push_back(int32_t(random() % 3 ? size + int64_t(random() % 9) : -1 - int64_t(random() % 5)));
      else ids.push_back(int32_t(random() % uint64_t(size)));
    }
    return ids;
  }
  std::unique_ptr<Tokenizer> tok_;
};

TEST_P(Stream, GivesTheTextOfDecode) {
  std::mt19937 random(5);
  for (int i = 0; i < 3000; i++) {
    const Ids ids = random_ids(random);
    const bool skip = random() % 2;
    for (const InvalidBytes invalid : {InvalidBytes::one_per_part, InvalidBytes::as_published}) {
      Detokenizer stream(*tok_, skip, invalid);
      std::string text;
      for (const int32_t id : ids) {
        const std::string piece = stream.add(id);
        ASSERT_TRUE(valid_utf8(piece));
        text += piece;
      }
      ASSERT_EQ(text + stream.finish(), tok_->decode(ids, skip, invalid));
    }
  }
}

/// A stream that was primed with the first ids gives what is left of decode() of all.
TEST_P(Stream, ContinuesAContext) {
  std::mt19937 random(6);
  for (int i = 0; i < 500; i++) {
    const Ids ids = random_ids(random);
    const std::string whole = tok_->decode(ids, true);
    for (size_t cut = 0; cut <= ids.size(); cut++) {
      Detokenizer head(*tok_, true), tail(*tok_, true);
      std::string text;
      for (size_t k = 0; k < cut; k++) text += head.add(ids[k]);
      tail.prime(std::span(ids).first(cut));
      for (size_t k = cut; k < ids.size(); k++) text += tail.add(ids[k]);
      ASSERT_EQ(text + tail.finish(), whole);
    }
  }
}

/// Valid text comes through as soon as it is complete; only byte tokens and trailing spaces that a decoder may still cut are held.
TEST_P(Stream, AgreesWithThePublishedDecoderOnValidText) {
  for (const std::string_view text : {"Hello world, it's 4 ½ months.", "你好世界😀👨‍👩‍👧‍👦 fin", "Straße über Größe 日本語", "\n\n  x\t"}) {
    const Ids ids = tok_->encode(text, false, true);
    EXPECT_EQ(tok_->decode(ids, false), tok_->decode(ids, false, InvalidBytes::as_published));
  }
}

TEST_P(Stream, LoneContinuationBytesCommitAtOnce) {
  int32_t id = tok_->token_id("<0x80>");
  if (id < 0) id = tok_->token_id("Ģ");  // byte 0x80 in the byte alphabet
  if (id < 0) GTEST_SKIP() << "no byte tokens";
  Detokenizer stream(*tok_, true);
  for (int i = 0; i < 2000; i++) ASSERT_EQ(stream.add(id), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

TEST_P(Stream, AnUnfinishedCharacterEndsAsOneReplacement) {
  const bool fallback = tok_->token_id("<0xE4>") >= 0;
  const int32_t first = tok_->token_id(fallback ? "<0xE4>" : "ä"), second = tok_->token_id(fallback ? "<0xBD>" : "½");
  if (first < 0 || second < 0 || (!fallback && tok_->token_bytes(first) != "\xE4")) GTEST_SKIP() << "no byte tokens";
  Detokenizer stream(*tok_, true);
  EXPECT_EQ(stream.add(first), "");
  EXPECT_EQ(stream.add(second), "");
  EXPECT_EQ(stream.finish(), "\uFFFD");
}

TEST_P(Stream, IdsOutsideTheVocabularyAreNothing) {
  for (const int64_t id : {int64_t{-1}, int64_t{INT32_MIN}, int64_t{INT32_MAX}, tok_->size(), tok_->size() + 1}) {
    EXPECT_EQ(tok_->token_text(int32_t(id)), "");
    EXPECT_EQ(tok_->token_bytes(int32_t(id)), "");
    EXPECT_FALSE(tok_->is_special(int32_t(id)));
    EXPECT_EQ(tok_->decode(Ids{int32_t(id)}, false), "");
  }
  for (int64_t id = 0; id < tok_->size(); id++) {
    const std::string_view text = tok_->token_text(int32_t(id));
    if (text.data()) EXPECT_EQ(tok_->token_text(tok_->token_id(text)), text);
    tok_->token_bytes(int32_t(id));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Stream, testing::ValuesIn(golden::names()), [](const auto& i) { return i.param; });

}  // namespace
}  // namespace isotope::text
