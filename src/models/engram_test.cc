// Random numbers, hash heads, the kept vocabulary and rows of n-gram tables by themselves. Whole models: tests/oracle/engram_test.cc.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "isotope/engine.h"
#include "models/engram_hash.h"
#include "models/engram_random.h"
#include "models/engram_reader.h"
#include "models/engram_vocab.h"
#include "support/bytes.h"

namespace isotope::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// ---- numpy ----------------------------------------------------------------------------------------------------------------------------
struct Draw {
  uint64_t seed;
  int64_t bound;
  std::vector<int64_t> want;  ///< numpy.random.default_rng(seed).integers(0, bound, size=n, dtype=numpy.int64)
};
const std::vector<Draw> kDraws = {
    {0, 10, {8, 6, 5, 2, 3, 0, 0, 0, 1, 8, 6, 9}},
    {10007, 46539438283891, {38316048023122, 2419938046656, 17979836159674, 36993668729195}},  // the released model's first table
    {140098, 46539438283891, {33858405369630, 25755403400457, 15460673601360, 41309613242795}},
    {1, 4294967296, {2032329983, 2198257139, 3243419750}},
    {2, 4294967295, {3597359296, 1123615559, 469463395, 1282009698}},
    {3, 4294967297, {367860371, 1017093381, 3441447623, 2500366906}},
    {4, 9223372036854775807, {8698157313321341862, 4716164252301366489, 9004258896379922272, 745580722369222170}},
    {5, 6917529027641081856, {5588953865617455547, 1977039342899601836, 373067199206180440, 2651965361128095989, 2825625255506439529, 313192468052243501,
                              337282879276512259, 4512782266146329695}},
    {6, 3221225473, {1433592382, 1733548717, 1667828903, 1105752869, 1188848793, 2118706828, 1206338520, 600930398}},
    {7, 1, {0, 0, 0}},
    {1099511627781, 1000, {14, 4, 449, 372, 915, 587}},
};

TEST(NumpyRandom, DrawsWhatNumpyDraws) {
  for (const Draw& d : kDraws) {
    NumpyRandom r(d.seed);
    for (int64_t want : d.want) EXPECT_EQ(r.below(d.bound), want) << "seed " << d.seed << ", bound " << d.bound;
  }
}

// ---- hash heads -----------------------------------------------------------------------------------------------------------------------
/// The released model's heads come to its tables' lengths.
TEST(EngramHash, PrimesOfTheReleasedModel) {
  const auto primes = engram_primes(2, 3, 8, 16'000'000);
  ASSERT_EQ(primes.size(), 2u);
  int64_t sums[2] = {};
  for (size_t t = 0; t < 2; ++t)
    for (int64_t p : primes[t]) sums[t] += p;
  EXPECT_THAT(sums, ElementsAre(384'006'168, 384'016'682));
}

TEST(EngramHash, PrimesAreNeverUsedTwice) { EXPECT_THAT(engram_primes(2, 2, 2, 5), ElementsAre(ElementsAre(5, 7, 11, 13), ElementsAre(17, 19, 23, 29))); }

EngramConfig small(std::vector<int32_t> map) {
  EngramConfig c{.layers = {1}, .rows = {5 + 7 + 11 + 13}, .longest = 3, .heads = 2, .dim = 4, .base = 5, .vocab = 10, .pad_id = 2};
  c.map = std::make_shared<const std::vector<int32_t>>(std::move(map));
  return c;
}

TEST(EngramHash, WhatIsBeforeTheStartOrBlockedCountsAsThePad) {
  const auto h = EngramHash::make(small({0, 1, 9, 3, 4, 5}));
  ASSERT_TRUE(h) << h.error().message();
  EXPECT_EQ(h->pad(), 9);
  const auto rows = [&](std::vector<int32_t> ids) {
    std::vector<int64_t> out(4);
    h->rows(0, ids, out);
    return out;
  };
  EXPECT_EQ(rows({3, -1, -1}), rows({3, 9, 9}));
  EXPECT_EQ(rows({3, 4, -1}), rows({3, 4, 9}));
  EXPECT_EQ(rows({3, -1, 4}), rows({3, 9, 9})) << "nothing is looked at behind what stands for nothing";
  EXPECT_NE(rows({3, 4, 5}), rows({3, 5, 4}));
  const auto got = rows({3, 4, 5});
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_GE(got[i], (std::array{0, 5, 12, 23})[i]);
    EXPECT_LT(got[i], (std::array{5, 12, 23, 36})[i]);
  }
}

TEST(EngramHash, WrongSizesAreErrors) {
  EngramConfig c = small({0, 1, 2, 3});
  c.rows[0] = 37;
  EXPECT_THAT(EngramHash::make(c).error().message(), HasSubstr("is 37, its hash heads have 36 rows"));
  c = small({0, 1, 2, 3});
  c.pad_id = 4;
  EXPECT_THAT(EngramHash::make(c).error().message(), HasSubstr("engram_pad_token_id is 4"));
  EXPECT_THAT(EngramHash::make(small({0, 10, 0})).error().message(), HasSubstr("number 10 of 10"));
}

TEST(EngramRanks, WholeHeadsForEach) {
  const auto all = [](int columns, int ranks) {
    std::vector<std::pair<int, int>> out;
    for (int r = 0; r < ranks; ++r) out.push_back(engram_columns_of(columns, ranks, r));
    return out;
  };
  using P = std::pair<int, int>;
  EXPECT_THAT(all(24, 4), ElementsAre(P{0, 6}, P{6, 12}, P{12, 18}, P{18, 24}));
  EXPECT_THAT(all(24, 5), ElementsAre(P{0, 5}, P{5, 10}, P{10, 15}, P{15, 20}, P{20, 24}));
  EXPECT_THAT(all(4, 3), ElementsAre(P{0, 2}, P{2, 4}, P{4, 4}));
  EXPECT_EQ(engram_group_refusal(24, 4), "");
  EXPECT_EQ(engram_group_refusal(24, 1), "");
  EXPECT_EQ(engram_group_refusal(4, 3), "a rank without hash heads");
  EXPECT_EQ(engram_group_refusal(4, 5), "more ranks than hash heads");
}

// ---- the vocabulary -------------------------------------------------------------------------------------------------------------------
class Words final : public TokenTexts {
 public:
  explicit Words(std::vector<std::string> w) : words_(std::move(w)) {}
  int64_t size() const override { return int64_t(words_.size()); }
  std::string_view spelling(int32_t id) const override { return words_[size_t(id)]; }
  std::string key(int32_t id) const override {
    ++asked;
    std::string s = words_[size_t(id)];
    for (char& c : s) c = char(std::tolower(c));
    return s;
  }
  mutable std::atomic<int> asked{0};

 private:
  std::vector<std::string> words_;
};
std::vector<std::string> some_words() {
  std::vector<std::string> w = {"The", "the", "a", "A", "THE"};
  for (int i = 0; i < 500; ++i) w.push_back(fmt::format("{}{}", i % 2 ? "w" : "W", i / 2));
  return w;
}

class KeptVocab : public testing::Test {
 protected:
  std::string path() const { return folder() + "/" + vocab_cache_name(words_); }
  std::string folder() const { return dir_.file("kept"); }
  CompressedVocab get(bool want_hit) const {
    bool hit = !want_hit;
    words_.asked = 0;
    CompressedVocab v = cached_vocab(words_, folder(), &hit);
    EXPECT_EQ(hit, want_hit);
    EXPECT_EQ(words_.asked == 0, want_hit);
    return v;
  }
  std::string content() const {
    std::ifstream in(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put(const std::string& bytes) const {
    std::filesystem::create_directories(folder());
    std::ofstream(path(), std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
  }
  test::TempDir dir_;
  Words words_{some_words()};
};

TEST_F(KeptVocab, NumbersComeInTheOrderOfFirstSight) {
  const CompressedVocab v = compress_vocab(words_);
  EXPECT_EQ(v.size, 252);
  EXPECT_EQ(std::vector<int32_t>(v.map.begin(), v.map.begin() + 8), (std::vector<int32_t>{0, 0, 1, 1, 0, 2, 2, 3}));
}

TEST_F(KeptVocab, TheSecondRunFindsIt) {
  const CompressedVocab v = get(false);
  EXPECT_EQ(v, compress_vocab(words_));
  EXPECT_EQ(get(true), v);
  int files = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(folder())) ++files;
  EXPECT_EQ(files, 1) << "nothing is left behind";
}

TEST_F(KeptVocab, AnotherVocabularyHasAnotherName) {
  std::vector<std::string> w = some_words();
  const std::string name = vocab_cache_name(words_);
  std::swap(w[2], w[400]);
  EXPECT_NE(vocab_cache_name(Words(w)), name);
  w = some_words();
  w.pop_back();
  EXPECT_NE(vocab_cache_name(Words(w)), name);
  w = some_words();
  w[3] += w[4].front(), w[4].erase(0, 1);  // the same letters in a row
  EXPECT_NE(vocab_cache_name(Words(w)), name);
}

/// Every cut and every changed byte is noticed, and the file is made anew.
TEST_F(KeptVocab, ADamagedFileIsMadeAnew) {
  const CompressedVocab v = get(false);
  const std::string good = content();
  std::vector<std::string> bad;
  for (size_t n : {size_t{0}, size_t{7}, size_t{47}, size_t{48}, good.size() - 1}) bad.push_back(good.substr(0, n));
  bad.push_back(good + "x");
  for (size_t at = 0; at < good.size(); at += at < 48 ? 1 : 97) {
    bad.push_back(good);
    bad.back()[at] = char(bad.back()[at] ^ 0x10);
  }
  for (const std::string& bytes : bad) {
    put(bytes);
    EXPECT_EQ(get(false), v);
    EXPECT_EQ(content(), good);
    EXPECT_EQ(get(true), v);
  }
}

TEST_F(KeptVocab, AFolderThatCannotBeWrittenCostsTheStoringAlone) {
  dir_.write("file", "");
  bool hit = true;
  EXPECT_EQ(cached_vocab(words_, dir_.file("file") + "/below", &hit), compress_vocab(words_));
  EXPECT_FALSE(hit);
  EXPECT_EQ(cached_vocab(words_, "", &hit), compress_vocab(words_));
  EXPECT_FALSE(hit);
}

TEST_F(KeptVocab, SeveralAtOnceLeaveOneGoodFile) {
  std::vector<std::thread> threads;
  std::vector<CompressedVocab> got(8);
  for (size_t i = 0; i < got.size(); ++i)
    threads.emplace_back([&, i] { got[i] = cached_vocab(words_, folder()); });
  for (std::thread& t : threads) t.join();
  for (const CompressedVocab& v : got) EXPECT_EQ(v, compress_vocab(words_));
  EXPECT_EQ(get(true), compress_vocab(words_));
}

TEST(ResolveEngram, AModelWithoutItsTokenizerIsRefusedUnlessItIsADummy) {
  EngramConfig c = small({});
  c.map = nullptr;
  EXPECT_THAT(resolve_engram(c, 100, {}, nullptr, {}).error().message(), HasSubstr("tokenizer.json"));
  ASSERT_TRUE(resolve_engram(c, 100, {}, nullptr, {}, true));
  EXPECT_EQ(c.map->size(), 100u);
  EngramConfig none;
  EXPECT_TRUE(resolve_engram(none, 100, {}, nullptr, {}));
  EXPECT_FALSE(none.map);
}

// ---- rows -----------------------------------------------------------------------------------------------------------------------------
TEST(EngramRows, EveryFormat) {
  std::vector<std::byte> codes, scales;
  for (int i = 0; i < 3 * 64; ++i) codes.push_back(std::byte(i % 0x7f | (i & 1) << 7));
  for (int i = 0; i < 3 * 2; ++i) scales.push_back(std::byte(120 + i));
  ops::RowTable t{.values = codes.data(), .scales = scales.data(), .rows = 3, .dim = 64, .block = 32};
  float row[64];
  for (int r = 0; r < 3; ++r) {
    ops::read_table_row(t, r, row);
    for (int i = 0; i < 64; ++i)
      EXPECT_EQ(row[i], std::ldexp(tensor::f8_e4m3_to_f32(uint8_t(codes[size_t(r * 64 + i)])), 120 + 2 * r + i / 32 - 127)) << r << " " << i;
  }
  t.scales = nullptr;
  ops::read_table_row(t, 2, row);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(row[i], tensor::f8_e4m3_to_f32(uint8_t(codes[size_t(128 + i)])));
  const uint16_t half[] = {0x3f80, 0xc000, 0x4040, 0x0000};  // 1, -2, 3, 0 as bfloat16
  const ops::RowTable plain{.values = reinterpret_cast<const std::byte*>(half), .dtype = tensor::DType::bf16, .rows = 2, .dim = 2};
  ops::read_table_row(plain, 1, row);
  EXPECT_EQ(row[0], 3.0f);
  EXPECT_EQ(row[1], 0.0f);
}

TEST(EngramReader, JobsAreDoneInTheirOrderAndNobodyWaitsForEver) {
  const float numbers[] = {1, 2, 3, 4, 5, 6};
  const ops::RowTable t{.values = reinterpret_cast<const std::byte*>(numbers), .dtype = tensor::DType::f32, .rows = 3, .dim = 2};
  EngramReader reader;
  for (int round = 0; round < 100; ++round) {
    const std::vector<int64_t> rows = {2, 0}, other = {1};
    float a[4] = {}, b[2] = {};
    EngramReader::Job first{.table = &t, .rows = rows, .out = a}, second{.table = &t, .rows = other, .out = b};
    reader.start(first), reader.start(second);
    reader.wait(second), reader.wait(first);
    EXPECT_THAT(a, ElementsAre(5, 6, 1, 2));
    EXPECT_THAT(b, ElementsAre(3, 4));
  }
}

}  // namespace
}  // namespace isotope::models
