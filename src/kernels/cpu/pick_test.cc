#include "kernels/cpu/pick.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace isotope::kernels::cpu {
namespace {

using testing::HasSubstr;

TEST(Pick, ListsCandidatesBestFirstAndEndsWithOneThatRunsAnywhere) {
  const auto list = isa_candidates();
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list.back().isa, "scalar");
  EXPECT_TRUE(list.back().runnable);
  for (const auto& s : list) EXPECT_EQ(s.isa, s.table->isa);
}

TEST(Pick, TakesTheFirstRunnable) {
  const auto best = pick_isa();
  ASSERT_TRUE(best);
  for (const auto& s : isa_candidates())
    if (s.runnable) {
      EXPECT_EQ((*best)->isa, s.isa);
      break;
    }
}

TEST(Pick, ForcedNameIsHonoured) {
  const auto t = pick_isa("scalar");
  ASSERT_TRUE(t);
  EXPECT_STREQ((*t)->isa, "scalar");
}

TEST(Pick, UnknownNameListsThoseThatRun) {
  for (const char* name : {"avx9000", "AVX2", " scalar", "scalar "}) {
    const auto t = pick_isa(name);
    ASSERT_FALSE(t) << name;
    EXPECT_EQ(t.error().code, Code::invalid_argument);
    EXPECT_THAT(t.error().message(), HasSubstr(name));
    EXPECT_THAT(t.error().message(), HasSubstr("scalar (runs anywhere)"));
    EXPECT_THAT(t.error().message(), HasSubstr("ISOTOPE_CPU_ISA"));
    for (const auto& s : isa_candidates()) EXPECT_EQ(t.error().remedy.find(std::string(s.isa) + " (") != std::string::npos, s.runnable) << s.isa;
  }
}

// ---- the lanes: every operation gives the scalar table's bits -----------------------------------------------------------------

std::vector<float> interesting() {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> v = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 1.5f, 2.5f, -2.5f, 0.49999997f, inf, -inf, NAN, 3.4e38f, -3.4e38f, 1e-38f, 1e-45f, -1e-45f,
                          65504.0f, 65519.9f, 65520.0f, 6.1e-5f, 5.96e-8f, 2.98e-8f, 2.9803e-8f, 88.72f, 88.73f, -87.4f, -103.9f, -104.1f, 2147483648.0f,
                          2147483520.0f, -2147483648.0f, 8388608.5f, 1.00390625f, 1.01171875f, std::bit_cast<float>(0x7f800001u),
                          std::bit_cast<float>(0xff812345u), std::bit_cast<float>(0x7f7fffffu), std::bit_cast<float>(0x3f808000u)};
  std::mt19937 rng(7);
  for (int i = 0; i < 4000; ++i) v.push_back(std::bit_cast<float>(uint32_t(rng())));
  for (int i = 0; i < 4000; ++i) v.push_back(std::ldexp(float(int32_t(rng())) / 2147483648.0f, int(rng() % 40) - 20));
  while (v.size() % 16) v.push_back(0.25f);
  return v;
}

class Lanes : public testing::TestWithParam<int> {};

TEST_P(Lanes, SameBitsAsScalar) {
  const auto v = interesting();
  const Probe what = Probe(GetParam());
  for (const auto& s : isa_candidates()) {
    if (!s.runnable) continue;
    for (size_t i = 0; i < v.size(); i += 16) {
      float b[16], c[16], want[16], got[16];
      for (size_t j = 0; j < 16; ++j) b[j] = v[(i * 7 + j * 3 + 5) % v.size()], c[j] = v[(i * 13 + j + 11) % v.size()];
      if (what >= Probe::load_n) b[0] = float(i / 16 % 16);
      table_scalar.probe(what, &v[i], b, c, want);
      s.table->probe(what, &v[i], b, c, got);
      for (int j = 0; j < 16; ++j) {
        if (std::isnan(want[j]) && std::isnan(got[j])) continue;  // payloads are nobody's business
        ASSERT_EQ(std::bit_cast<uint32_t>(want[j]), std::bit_cast<uint32_t>(got[j]))
            << s.isa << " probe " << GetParam() << " a=" << v[i + size_t(j)] << " b=" << b[j] << " c=" << c[j] << " want " << want[j] << " got " << got[j];
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, Lanes, testing::Range(0, int(Probe::count_)));

TEST(Lanes, ExpIsAccurateAndSaturates) {
  float x[16], y[16];
  for (double lo = -103.0; lo < 88.7; lo += 0.01) {
    for (int j = 0; j < 16; ++j) x[j] = float(lo + j * 0.000617);
    table_scalar.probe(Probe::exp, x, x, x, y);
    for (int j = 0; j < 16; ++j) {
      const double want = std::exp(double(x[j]));
      EXPECT_NEAR(y[j], want, want * 1.2e-7 + 1.5e-45) << x[j];
    }
  }
  const float inf = std::numeric_limits<float>::infinity();
  const float in[16] = {0.0f, -inf, inf, NAN, -104.5f, 89.0f, -1e30f, 1e30f}, one = 1.0f;
  table_scalar.probe(Probe::exp, in, in, in, y);
  EXPECT_EQ(y[0], one);
  EXPECT_EQ(y[1], 0.0f);
  EXPECT_EQ(y[2], inf);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[4], 0.0f);
  EXPECT_EQ(y[5], inf);
  EXPECT_EQ(y[6], 0.0f);
  EXPECT_EQ(y[7], inf);
}

}  // namespace
}  // namespace isotope::kernels::cpu
