// The tokenize cache gives the ids of the plain encoder, whatever was asked before, and keeps to its budget.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "golden_files.h"
#include "text/cached_tokenizer.h"
#include "text/unicode.h"

namespace isotope::text {
namespace {

using Ids = std::vector<int32_t>;
using Pieces = std::vector<Tokenizer::Piece>;

struct Cached {
  std::unique_ptr<Tokenizer> tok;
  const CachedTokenizer* cache;
};

Cached wrap(std::unique_ptr<Tokenizer> plain, CachedTokenizerOptions o) {
  Cached c{CachedTokenizer::wrap(std::move(plain), std::move(o)), nullptr};
  c.cache = dynamic_cast<const CachedTokenizer*>(c.tok.get());
  return c;
}

/// A conversation that grows turn by turn, as a chat template writes it: control tokens are template text, what was said is not.
class Conversation {
 public:
  Conversation(const Tokenizer& tok, const std::vector<std::string>& strings, uint32_t seed) : strings_(strings), random_(seed) {
    for (int32_t id = 0; id < tok.size(); id++)
      if (tok.is_special(id)) controls_.emplace_back(tok.token_text(id));
    controls_.emplace_back(" ");
    say();
  }
  const Pieces& pieces() const { return pieces_; }
  void say() {
    for (int i = 0; i < 4; i++) {
      pieces_.push_back({pick(controls_) + (random_() % 3 ? "" : "user\n"), true});
      std::string content;
      while (content.size() < 60) content += pick(strings_) + (random_() % 8 ? " " : pick(controls_));
      pieces_.push_back({std::move(content), random_() % 4 == 0});
    }
  }
  /// Another end, somewhere inside what was said.
  void rewrite() {
    pieces_.resize(1 + random_() % pieces_.size());
    std::string& last = pieces_.back().text;
    size_t at = last.empty() ? 0 : random_() % last.size();
    while (at > 0 && (uint8_t(last[at]) & 0xC0) == 0x80) at--;
    last.resize(at);
    say();
  }

 private:
  const std::string& pick(const std::vector<std::string>& v) { return v[random_() % v.size()]; }
  const std::vector<std::string>& strings_;
  std::vector<std::string> controls_;
  std::mt19937 random_;
  Pieces pieces_;
};

class CachedGolden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    plain_ = golden::load(GetParam());
    ASSERT_TRUE(plain_);
    strings_ = nlohmann::json::parse(golden::read(golden::kFolder / "strings.json")).get<std::vector<std::string>>();
    std::erase_if(strings_, [](const std::string& s) { return s.size() > 400; });
  }
  std::unique_ptr<Tokenizer> plain_;
  std::vector<std::string> strings_;
};

TEST_P(CachedGolden, GivesTheIdsOfThePlainEncoder) {
  const Cached c = wrap(golden::load(GetParam()), {.budget_bytes = 1 << 20, .min_characters = 0, .checks = 0, .threads = 2});
  if (!c.cache) {  // all of its added tokens are looked for in normalized text
    EXPECT_EQ(GetParam(), "llama2");
    return;
  }
  for (uint32_t seed = 0; seed < 6; seed++) {
    Conversation talk(*plain_, strings_, seed);
    for (int turn = 0; turn < 14; turn++) {
      ASSERT_EQ(c.tok->encode_pieces(talk.pieces(), true), plain_->encode_pieces(talk.pieces(), true)) << "seed " << seed << " turn " << turn;
      std::string text;
      for (const auto& p : talk.pieces()) text += p.text;
      ASSERT_EQ(c.tok->encode(text, false, seed % 2 == 0), plain_->encode(text, false, seed % 2 == 0)) << "seed " << seed << " turn " << turn;
      turn % 3 == 2 ? talk.rewrite() : talk.say();
    }
  }
  const TokenizeCacheStats s = c.cache->stats();
  EXPECT_GT(s.prompt_hits, 0u);
  EXPECT_GT(s.segment_hits, 0u);
  EXPECT_LE(s.bytes, s.budget);
}

INSTANTIATE_TEST_SUITE_P(All, CachedGolden, testing::ValuesIn(golden::names()), [](const auto& i) { return i.param; });

const std::string kTurn = "<|im_start|>user\nHow many words are there in this sentence, and which one is the longest?<|im_end|>\n<|im_start|>assistant\nTwelve.<|im_end|>\n";

std::string turns(int n) {
  std::string out;
  for (int i = 0; i < n; i++) out += std::to_string(i) + kTurn;
  return out;
}

TEST(CachedTokenizer, AGrowingPromptIsEncodedOnlyWhereItIsNew) {
  const auto plain = golden::load("qwen2");
  const Cached c = wrap(golden::load("qwen2"), {.min_characters = 1000, .threads = 1});
  EXPECT_EQ(c.tok->encode(turns(20), false, true), plain->encode(turns(20), false, true));
  const TokenizeCacheStats first = c.cache->stats();
  EXPECT_EQ(first.prompt_hits, 0u);
  EXPECT_EQ(c.tok->encode(turns(21), false, true), plain->encode(turns(21), false, true));
  const TokenizeCacheStats second = c.cache->stats();
  EXPECT_EQ(second.prompt_hits, 1u);
  EXPECT_EQ(second.misses - first.misses, 1u);  // "\n20"; the rest of the turn has been seen
}

TEST(CachedTokenizer, ShortPromptsGoByIt) {
  const Cached c = wrap(golden::load("qwen2"), {});
  c.tok->encode(turns(3), true, true);
  const std::string accents = [] { std::string s; for (int i = 0; i < 60'000; i++) s += "é"; return s; }();
  c.tok->encode(accents, true, true);  // 120 000 bytes, but not so many characters
  EXPECT_EQ(c.cache->stats().bypassed, 2u);
  EXPECT_EQ(c.cache->stats().misses, 0u);
  c.tok->encode(accents + accents, true, true);
  EXPECT_EQ(c.cache->stats().misses, 1u);
}

TEST(CachedTokenizer, ABudgetOfZeroOrATokenizerWithoutAddedTokensHasNoCache) {
  EXPECT_FALSE(wrap(golden::load("qwen2"), {.budget_bytes = 0}).cache);
  VocabSource source;
  source.tokenizer_json = R"({"version":"1.0","added_tokens":[],"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]}})";
  const Cached none = wrap(*Tokenizer::create(source), {.min_characters = 0});
  EXPECT_FALSE(none.cache);
  EXPECT_EQ(none.tok->encode("abab", false, true), (Ids{2, 2}));
}

TEST(CachedTokenizer, TheBudgetHoldsWhateverComes) {
  const auto plain = golden::load("smollm");
  const Cached c = wrap(golden::load("smollm"), {.budget_bytes = 40'000, .min_characters = 0, .threads = 1});
  std::mt19937 random(5);
  for (int i = 0; i < 300; i++) {
    std::string text;
    for (uint32_t n = 1 + random() % 8; n-- > 0;) text += std::string(random() % 400, char('a' + random() % 26)) + "<|im_end|>" + std::to_string(random() % 50);
    ASSERT_EQ(c.tok->encode(text, false, true), plain->encode(text, false, true));
    ASSERT_LE(c.cache->stats().bytes, 40'000);
  }
  EXPECT_GT(c.cache->stats().evictions, 0u);
  const Cached tiny = wrap(golden::load("smollm"), {.budget_bytes = 10, .min_characters = 0});
  EXPECT_EQ(tiny.tok->encode(kTurn, false, true), plain->encode(kTurn, false, true));
  EXPECT_EQ(tiny.cache->stats().entries, 0);
}

TEST(CachedTokenizer, ManyThreadsShareIt) {
  const auto plain = golden::load("llama3");
  const Cached c = wrap(golden::load("llama3"), {.budget_bytes = 60'000, .min_characters = 0, .threads = 2});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; i++) {
        const std::string text = "<|begin_of_text|>" + std::to_string((i * 7 + t) % 13) + "<|start_header_id|>user<|end_header_id|>\n\nHello " + std::to_string(i) + "<|eot_id|>tail";
        wrong += c.tok->encode(text, true, true) != plain->encode(text, true, true);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

/// A tokenizer whose segments lie: one id too many for the text "liar".
class Liar final : public Tokenizer, private SegmentedEncoder {
 public:
  explicit Liar(std::unique_ptr<Tokenizer> t) : t_(std::move(t)), s_(*t_->segments()) {}
  Ids encode(std::string_view s, bool a, bool p) const override { return t_->encode(s, a, p); }
  Ids encode_pieces(std::span<const Piece> p, bool a) const override { return t_->encode_pieces(p, a); }
  std::string token_bytes(int32_t id) const override { return t_->token_bytes(id); }
  std::string_view token_text(int32_t id) const override { return t_->token_text(id); }
  int32_t token_id(std::string_view s) const override { return t_->token_id(s); }
  bool is_special(int32_t id) const override { return t_->is_special(id); }
  int64_t size() const override { return t_->size(); }
  int32_t bos_id() const override { return -1; }
  int32_t eos_id() const override { return -1; }
  bool adds_bos() const override { return false; }
  const SegmentedEncoder* segments() const override { return this; }

 private:
  void cut(std::string_view t, const SpecialZones& z, CutPoint f, std::vector<AddedTokens::Part>& o) const override { s_.cut(t, z, f, o); }
  int32_t added_id(const AddedTokens::Part& p) const override { return s_.added_id(p); }
  Result<void> encode_segment(std::string_view t, Span s, const SpecialZones& z, Ids& out) const override {
    if (t.substr(s.begin, s.end - s.begin) == "liar") out.push_back(0);
    return s_.encode_segment(t, s, z, out);
  }
  size_t look_ahead() const override { return s_.look_ahead(); }
  Ids add_special(Ids ids) const override { return s_.add_special(std::move(ids)); }
  std::unique_ptr<Tokenizer> t_;
  const SegmentedEncoder& s_;
};

TEST(CachedTokenizer, ADifferenceTurnsItOffForGoodAndNoWrongIdLeaves) {
  const auto plain = golden::load("smollm");
  std::vector<std::string> warnings;
  const Cached c = wrap(std::make_unique<Liar>(golden::load("smollm")), {.min_characters = 0, .warn = [&](const std::string& w) { warnings.push_back(w); }});
  EXPECT_EQ(c.tok->encode("honest<|im_end|>x", false, true), plain->encode("honest<|im_end|>x", false, true));
  EXPECT_EQ(c.cache->stats().disabled, 0u);
  const RequestLabel label("req-7");
  for (int i = 0; i < 3; i++) EXPECT_EQ(c.tok->encode("a<|im_end|>liar", false, true), plain->encode("a<|im_end|>liar", false, true));
  EXPECT_EQ(c.cache->stats().disabled, 1u);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("req-7"), std::string::npos) << warnings[0];
  EXPECT_EQ(c.cache->stats().bypassed, 2u);
}

TEST(CachedTokenizer, OnlyTheFirstPromptsAreCompared) {
  const Cached c = wrap(golden::load("smollm"), {.min_characters = 0, .checks = 3});
  for (int i = 0; i < 9; i++) c.tok->encode(std::to_string(i) + kTurn, false, true);
  EXPECT_EQ(c.cache->stats().checked, 3u);
}

}  // namespace
}  // namespace isotope::text
