// Streams that go on from their last update, and streams that decode windows of tokens: the same text, whatever the tokenizer, the size of the updates and the
// moment at which one mode gives way to the other.
#include <gtest/gtest.h>

#include <random>

#include "golden_files.h"
#include "text/detokenizer.h"
#include "text/unicode.h"

namespace isotope::text {
namespace {

using Ids = std::vector<int32_t>;

class Reuse : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    tok_ = golden::load(GetParam());
    ASSERT_TRUE(tok_);
  }
  Ids random_ids(std::mt19937& random, size_t longest) const {
    Ids ids;
    const int32_t byte = tok_->token_id("<0x00>");
    for (size_t n = random() % longest; n > 0; n--) {
      ids.push_back(random() % 10 < 4 && byte >= 0 ? byte + int32_t(random() % 256) : int32_t(random() % uint64_t(tok_->size() + 3)));
      while (random() % 6 == 0) ids.push_back(ids.back());
    }
    return ids;
  }
  std::unique_ptr<Tokenizer> tok_;
};

TEST_P(Reuse, NeverChangesTheText) {
  std::mt19937 random(11);
  DeltaReuse state;
  for (int i = 0; i < 1500; i++) {
    const Ids ids = random_ids(random, 24);
    const bool skip = random() % 2;
    const size_t size = 1 + random() % 5, flip = random() % 30;
    const InvalidBytes invalid = random() % 2 ? InvalidBytes::one_per_part : InvalidBytes::as_published;
    bool on = random() % 2;
    state.set(on, 1 + random() % 3);
    Detokenizer stream(*tok_, skip, invalid, state);
    std::string text;
    for (size_t at = 0; at < ids.size(); at += size) {
      if (at >= flip) state.set(on = !on, 1 + random() % 3);
      const std::string piece = stream.add(std::span(ids).subspan(at, std::min(size, ids.size() - at)));
      ASSERT_TRUE(valid_utf8(piece));
      text += piece;
    }
    ASSERT_EQ(text + stream.finish(), tok_->decode(ids, skip, invalid));
  }
  EXPECT_EQ(state.stats().mismatches, 0u);
  EXPECT_GT(state.stats().audits, 0u);
}

TEST_P(Reuse, WithoutItAContextIsContinuedAsWell) {
  std::mt19937 random(12);
  DeltaReuse state;
  state.set(false, 1);
  for (int i = 0; i < 200; i++) {
    const Ids ids = random_ids(random, 12);
    const size_t cut = random() % (ids.size() + 1);
    Detokenizer head(*tok_, true, InvalidBytes::one_per_part, state), tail(*tok_, true, InvalidBytes::one_per_part, state);
    std::string text = head.add(std::span(ids).first(cut));
    tail.prime(std::span(ids).first(cut));
    text += tail.add(std::span(ids).subspan(cut));
    ASSERT_EQ(text + tail.finish(), tok_->decode(ids, true));
  }
  EXPECT_EQ(state.stats().reused, 0u);
}

/// The window must not grow with a run of bytes that never become a character.
TEST_P(Reuse, LongRunsOfIncompleteBytesStayLinearWithoutIt) {
  const bool fallback = tok_->token_id("<0xE4>") >= 0;
  const int32_t id = tok_->token_id(fallback ? "<0xE4>" : "ä");
  if (id < 0) GTEST_SKIP() << "no byte tokens";
  DeltaReuse state;
  state.set(false, 1);
  Detokenizer stream(*tok_, true, InvalidBytes::one_per_part, state);
  const Ids ids(20'000, id);
  std::string text;
  for (const int32_t t : ids) text += stream.add(t);
  EXPECT_EQ(text + stream.finish(), tok_->decode(ids, true));
  EXPECT_EQ(state.stats().calls, ids.size());
}

TEST_P(Reuse, TheProbeAllowsIt) {
  int64_t compared = 0;
  EXPECT_EQ(probe_delta_reuse(*tok_, compared), "");
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(All, Reuse, testing::ValuesIn(golden::names()), [](const auto& i) { return i.param; });

/// Says "a" for token 7 until it has been asked so many times, then "b".
class Turncoat final : public Tokenizer {
 public:
  explicit Turncoat(int loyal) : loyal_(loyal) {}
  Ids encode(std::string_view s, bool, bool) const override { return Ids(s.size(), 7); }
  Ids encode_pieces(std::span<const Piece>, bool) const override { return {7}; }
  std::string token_bytes(int32_t) const override { return "a"; }
  std::string_view token_text(int32_t) const override { return "a"; }
  int32_t token_id(std::string_view) const override { return 7; }
  bool is_special(int32_t) const override { return false; }
  int64_t size() const override { return 8; }
  int32_t bos_id() const override { return -1; }
  int32_t eos_id() const override { return -1; }
  bool adds_bos() const override { return false; }
  std::optional<std::string> decoder_text(int32_t, bool) const override { return asked_++ < loyal_ ? "a" : "b"; }

 private:
  int loyal_;
  mutable int asked_ = 0;
};

TEST(DeltaReuse, AFailedAuditGivesTheDecodedTextAndEndsTheReuseForAll) {
  const Turncoat tok(4);
  DeltaReuse state;
  std::vector<std::string> errors;
  state.configure("on", 3, tok, [&](bool error, const std::string& what) {
    if (error) errors.push_back(what);
  });
  Detokenizer stream(tok, true, InvalidBytes::one_per_part, state);
  std::string text;
  for (int i = 0; i < 6; i++) text += stream.add(7);
  // Call 0 is audited (3 questions in all), calls 1 and 2 are not: "a", "a", then "b" goes unnoticed. Call 3 is audited, and its decode is "b" as well.
  EXPECT_EQ(text.substr(0, 2), "aa");
  EXPECT_LE(state.stats().mismatches, 1u);
  Turncoat second(5);
  Detokenizer other(second, true, InvalidBytes::one_per_part, state);
  state.set(true, 1);
  for (int i = 0; i < 4; i++) other.add(7);
  EXPECT_EQ(state.stats().mismatches, 1u);
  EXPECT_FALSE(state.on());
  EXPECT_EQ(errors.size(), 1u);
  const uint64_t audits = state.stats().audits;
  Detokenizer third(tok, true, InvalidBytes::one_per_part, state);
  for (int i = 0; i < 5; i++) third.add(7);
  EXPECT_EQ(state.stats().audits, audits);
}

TEST(DeltaReuse, TheSettingDecidesAndEveryNthUpdateIsAudited) {
  const auto tok = golden::load("qwen2");
  struct Row { const char* mode; int64_t every; uint64_t reused, audits; };
  for (const Row& r : {Row{"off", 10, 0, 0}, Row{"on", 10, 90, 10}, Row{"on", 1, 0, 100}, Row{"auto", 50, 98, 2}}) {
    DeltaReuse state;
    std::string line;
    state.configure(r.mode, r.every, *tok, [&](bool, const std::string& what) { line = what; });
    Detokenizer stream(*tok, true, InvalidBytes::one_per_part, state);
    std::string text;
    Ids ids;
    for (int i = 0; i < 100; i++) ids.push_back(i * 7 % 1000);
    for (const int32_t id : ids) text += stream.add(id);
    EXPECT_EQ(text + stream.finish(), tok->decode(ids, true)) << r.mode;
    EXPECT_EQ(state.stats().calls, 100u) << r.mode;
    EXPECT_EQ(state.stats().reused, r.reused) << r.mode << r.every;
    EXPECT_EQ(state.stats().audits, r.audits) << r.mode << r.every;
    EXPECT_TRUE(line.starts_with(std::string_view(r.mode) == "off" ? "detokenizer reuse off" : "detokenizer reuse on")) << line;
  }
}

}  // namespace
}  // namespace isotope::text
