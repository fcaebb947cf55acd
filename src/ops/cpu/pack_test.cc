#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <thread>

#include "kernels/cpu/pick.h"
#include "ops/cpu/linear.h"
#include "ops/cpu/weight_samples.h"

namespace isotope::ops {
namespace {

using kernels::cpu::Pack;
using samples::Sample;
using tensor::DType;
using testing::HasSubstr;

const kernels::cpu::KernelTable& any_table() { return **kernels::cpu::pick_isa(); }

bool same(float a, float b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

class EveryFormat : public testing::TestWithParam<DType> {};
std::string name(const testing::TestParamInfo<DType>& p) { return std::string(tensor::format(p.param).name); }

// What went in comes out, value for value, on every ISA: nothing is requantized, and a tied head can serve as embedding.
TEST_P(EveryFormat, PackingLosesNothing) {
  const DType t = GetParam();
  const int64_t k = tensor::format(t).block == 1 ? 37 : 2 * std::max(256, tensor::format(t).block);
  for (const Precision precision : {Precision::fast, Precision::exact}) {
    for (const bool wild : {false, true}) {
      Sample s = wild ? samples::wild(t, 35, k, 11) : samples::tame(t, 35, k, 5);
      samples::decode(s);
      const auto w = pack_weight(s.tensor, {}, precision);
      ASSERT_TRUE(w) << w.error().message();
      EXPECT_EQ((*w)->n, 35);
      EXPECT_EQ((*w)->k, k);
      std::vector<float> row(size_t(k), -7.0f);
      for (const auto& isa : kernels::cpu::isa_candidates()) {
        if (!isa.runnable) continue;
        for (int64_t r = 0; r < 35; ++r) {
          embed_row(*isa.table, **w, r, row.data());
          for (int64_t i = 0; i < k; ++i)
            ASSERT_TRUE(same(row[size_t(i)], s.values[size_t(r * k + i)]))
                << isa.isa << (wild ? " wild" : " tame") << " row " << r << " k " << i << ": " << row[size_t(i)] << " want " << s.values[size_t(r * k + i)];
        }
      }
    }
  }
}

// Decoding is limited by memory: what is read for a weight must not grow much beyond the file.
TEST_P(EveryFormat, TakesLittleMoreThanTheFile) {
  const DType t = GetParam();
  const Sample s = samples::tame(t, 64, 1024, 3);
  const auto w = pack_weight(s.tensor, {}, Precision::fast);
  ASSERT_TRUE(w);
  const auto& p = static_cast<const PackedWeight&>(**w);
  EXPECT_GE(p.bytes, 64u * 1024u * size_t(p.row().bits == 32 ? 32 : 1) / 8);
  if (p.pack != Pack::i8g16 && !(t == DType::f8_e4m3 || t == DType::f8_e5m2 || t == DType::f8_g32)) EXPECT_LE(double(p.bytes), 1.04 * double(s.bytes.size()));
  if (p.pack == Pack::i8g16) EXPECT_LE(p.bytes, 64u * 1024u * 5 / 4);
}

TEST_P(EveryFormat, SelectsAndOrdersRows) {
  const DType t = GetParam();
  const Sample s = samples::tame(t, 20, 256, 9);
  const std::vector<int32_t> rows = {19, 0, 7, 7, 3, 18, 1, 2, 4, 5, 6, 8, 9, 10, 11, 12, 13};
  const auto w = pack_weight(s.tensor, rows, Precision::fast);
  ASSERT_TRUE(w);
  ASSERT_EQ((*w)->n, int64_t(rows.size()));
  std::vector<float> row(256);
  for (size_t r = 0; r < rows.size(); ++r) {
    embed_row(any_table(), **w, int64_t(r), row.data());
    for (size_t i = 0; i < 256; ++i) ASSERT_EQ(row[i], s.values[size_t(rows[r]) * 256 + i]) << r;
  }
}
INSTANTIATE_TEST_SUITE_P(Pack, EveryFormat, testing::ValuesIn(samples::kWeightTypes), name);

// Four blocks behind one scale: 4.3, 8.25 and 8.25 bits a weight, the same values; columns of 128 may be cut at the end for E4M3.
TEST(Pack, OneScaleForManyColumnsIsHeldOnce) {
  struct Case {
    DType type;
    int64_t k;
    Pack pack;
    double bits;
  };
  for (const Case& c : {Case{DType::i4_g32, 512, Pack::i4g128, 4.32}, {DType::i4_g32, 480, Pack::i4g32, 5.27}, {DType::i8_g16, 512, Pack::i8g128, 8.26},
                        {DType::i8_g16, 480, Pack::i8g16, 10.01}, {DType::f8_g32, 512, Pack::f8g128, 8.26}, {DType::f8_g32, 480, Pack::f8g128, 9.1}}) {
    SCOPED_TRACE(std::string(tensor::format(c.type).name) + " " + std::to_string(c.k));
    const Sample s = samples::grouped(c.type, 128, c.k, 31);
    const auto w = pack_weight(s.tensor, {}, Precision::fast);
    ASSERT_TRUE(w) << w.error().message();
    EXPECT_EQ(static_cast<const PackedWeight&>(**w).pack, c.pack);
    EXPECT_LE(8.0 * double((*w)->bytes), c.bits * 128.0 * double(c.k));
    EXPECT_EQ(packed_bytes(c.type, 128, c.k, Precision::fast), (*w)->bytes) << "what a forecast says";
    std::vector<float> row(static_cast<size_t>(c.k));
    for (const auto& isa : kernels::cpu::isa_candidates()) {
      if (!isa.runnable) continue;
      for (int64_t r = 0; r < 128; ++r) {
        embed_row(*isa.table, **w, r, row.data());
        for (int64_t i = 0; i < c.k; ++i) ASSERT_EQ(row[size_t(i)], s.values[size_t(r * c.k + i)]) << isa.isa << " row " << r << " k " << i;
      }
    }
  }
}

// What a forecast says is what packing takes: every format, rows that fill units of 128 and that do not, either precision.
TEST(Pack, ForecastIsWhatPackingTakes) {
  for (const DType t : samples::kWeightTypes)
    for (const int64_t k : {256, 288, 480, 512}) {
      if (k % tensor::format(t).block) continue;
      const bool groups = t == DType::i4_g32 || t == DType::i8_g16 || t == DType::f8_g32;
      const Sample s = groups ? samples::grouped(t, 20, k, 7) : samples::tame(t, 20, k, 7);
      for (const Precision p : {Precision::fast, Precision::exact}) {
        const auto w = pack_weight(s.tensor, {}, p);
        ASSERT_TRUE(w) << w.error().message();
        EXPECT_EQ(packed_bytes(t, 20, k, p), (*w)->bytes) << tensor::format(t).name << " " << k << (p == Precision::exact ? " exact" : "");
      }
    }
}

TEST(Pack, E4m3KeepsItsBitsInFloat32Too) {
  const Sample s = samples::grouped(DType::f8_g32, 20, 256, 3);
  EXPECT_EQ(static_cast<const PackedWeight&>(**pack_weight(s.tensor, {}, Precision::exact)).pack, Pack::f8g128);
}

TEST(Pack, AFolderHoldsWhatMemoryHasNoRoomFor) {
  const Sample s = samples::tame(DType::q4_k, 48, 512, 21);
  WeightStore store("/tmp");
  const auto w = pack_weight(s.tensor, {}, Precision::fast, &store);
  ASSERT_TRUE(w) << w.error().message();
  std::vector<float> row(512);
  for (int64_t r = 0; r < 48; ++r) {
    embed_row(any_table(), **w, r, row.data());
    ASSERT_TRUE(std::equal(row.begin(), row.end(), s.values.begin() + r * 512));
  }
  WeightStore nowhere("/no/such/folder");
  const auto failed = pack_weight(s.tensor, {}, Precision::fast, &nowhere);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message(), HasSubstr("/no/such/folder"));
}

TEST(Pack, CoversEveryWeightFormat) {
  for (int t = 0; t < int(DType::count_); ++t) {
    if (!tensor::format(DType(t)).weights) continue;
    EXPECT_NE(std::find(std::begin(samples::kWeightTypes), std::end(samples::kWeightTypes), DType(t)), std::end(samples::kWeightTypes))
        << tensor::format(DType(t)).name;
  }
}

TEST(Pack, RefusesWhatIsNotAWeight) {
  std::vector<uint8_t> bytes(4096);
  for (const DType t : {DType::i8, DType::i32, DType::f64, DType::boolean, DType::q8_1, DType::q8_k}) {
    const auto w = pack_weight({.dtype = t, .data = bytes.data(), .bytes = bytes.size(), .shape = {2, 256}, .rank = 2}, {}, Precision::fast);
    ASSERT_FALSE(w);
    EXPECT_EQ(w.error().code, Code::unsupported);
    EXPECT_THAT(w.error().message(), HasSubstr(std::string(tensor::format(t).name)));
  }
}

TEST(Pack, RefusesBrokenShapes) {
  std::vector<uint8_t> bytes(4096);
  const auto fails = [&](std::array<int64_t, 4> shape, int rank, size_t size, std::vector<int32_t> rows, const char* why) {
    const auto w = pack_weight({.dtype = DType::q4_0, .data = bytes.data(), .bytes = size, .shape = shape, .rank = rank}, rows, Precision::fast);
    ASSERT_FALSE(w) << why;
    EXPECT_FALSE(w.error().remedy.empty());
  };
  fails({2, 33}, 2, 4096, {}, "not whole blocks");
  fails({2, 0}, 2, 4096, {}, "empty rows");
  fails({0, 32}, 2, 4096, {}, "no rows");
  fails({-1, 32}, 2, 4096, {}, "negative");
  fails({2, 32}, 2, 35, {}, "one byte short");
  fails({int64_t{1} << 62, 32}, 2, 4096, {}, "overflow");
  fails({int64_t{1} << 40, int64_t{1} << 40, 32}, 3, 4096, {}, "rows overflow");
  fails({1, int64_t{1} << 62}, 2, 4096, {}, "row overflow");
  fails({2, 32}, 0, 4096, {}, "rank 0");
  fails({2, 32}, 2, 4096, {0, 2}, "row outside");
  fails({2, 32}, 2, 4096, {-1}, "row negative");
}

TEST(Pack, ManyThreadsShareOneStore) {
  const Sample s = samples::tame(DType::q4_k, 48, 512, 21);
  WeightStore store;
  std::vector<std::unique_ptr<Weight>> made(24);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = size_t(t); i < made.size(); i += 4) made[i] = std::move(*pack_weight(s.tensor, {}, Precision::fast, &store));
    });
  for (auto& t : threads) t.join();
  std::vector<float> row(512);
  for (const auto& w : made)
    for (int64_t r = 0; r < 48; ++r) {
      embed_row(any_table(), *w, r, row.data());
      ASSERT_TRUE(std::equal(row.begin(), row.end(), s.values.begin() + r * 512));
    }
}

TEST(Pack, WeightsOutliveTheirStore) {
  const Sample s = samples::tame(DType::q8_0, 16, 64, 2);
  std::unique_ptr<Weight> w;
  {
    WeightStore store;
    w = std::move(*pack_weight(s.tensor, {}, Precision::fast, &store));
  }
  std::vector<float> row(64);
  embed_row(any_table(), *w, 3, row.data());
  EXPECT_EQ(row[5], s.values[3 * 64 + 5]);
}

}  // namespace
}  // namespace isotope::ops
