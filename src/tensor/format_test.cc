#include "tensor/format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <vector>

namespace isotope::tensor {
namespace {

std::vector<char> golden(const std::string& folder, std::string_view name) {
  std::ifstream f(std::string(ISOTOPE_SOURCE_DIR) + "/tests/golden/" + folder + "/" + std::string(name) + ".bin",
                  std::ios::binary);
  EXPECT_TRUE(f) << folder << "/" << name;
  return {std::istreambuf_iterator<char>(f), {}};
}

uint32_t first_u32(const std::vector<char>& v) {
  uint32_t n = 0;
  if (v.size() >= 4) std::memcpy(&n, v.data(), 4);
  return n;
}

constexpr DType kGolden[] = {DType::f16,    DType::bf16,  DType::q4_0,    DType::q4_1,  DType::q5_0,
                             DType::q5_1,   DType::q8_0,  DType::q2_k,    DType::q3_k,  DType::q4_k,
                             DType::q5_k,   DType::q6_k,  DType::iq1_s,   DType::iq1_m, DType::iq2_xxs,
                             DType::iq2_xs, DType::iq2_s, DType::iq3_xxs, DType::iq3_s, DType::iq4_nl,
                             DType::iq4_xs, DType::tq1_0, DType::tq2_0,   DType::mxfp4, DType::nvfp4};

class Golden : public testing::TestWithParam<DType> {};

TEST_P(Golden, DequantizesAsTheReferenceBitForBit) {
  const Format& f = format(GetParam());
  const std::vector<char> file = golden("dequant", f.name);
  const size_t n = first_u32(file), elements = n * size_t(f.block);
  ASSERT_EQ(file.size(), 4 + n * size_t(f.bytes) + elements * 4);
  std::vector<float> want(elements), got(elements);
  std::memcpy(want.data(), file.data() + 4 + n * size_t(f.bytes), elements * 4);
  ASSERT_TRUE(dequantize(GetParam(), file.data() + 4, got));
  for (size_t i = 0; i < elements; ++i) {
    if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(got[i])) << f.name << " element " << i;
    else
      EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
          << f.name << " element " << i << ": " << got[i] << " " << want[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Golden, testing::ValuesIn(kGolden),
                         [](const auto& p) { return std::string(format(p.param).name); });

TEST(Quantize, WritesTheReferenceBytes) {
  for (DType t : {DType::f16, DType::bf16, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::mxfp4}) {
    const Format& f = format(t);
    const std::vector<char> file = golden("quantize", f.name);
    const size_t n = first_u32(file);
    ASSERT_EQ(file.size(), 4 + n * 4 + row_bytes(t, int64_t(n))) << f.name;
    std::vector<float> in(n);
    std::memcpy(in.data(), file.data() + 4, n * 4);
    std::vector<char> out(row_bytes(t, int64_t(n)));
    ASSERT_TRUE(quantize(t, in, out.data()));
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], file[4 + n * 4 + i]) << f.name << " byte " << i;
  }
}

TEST(Quantize, KFormatsStayWithinAStep) {
  std::vector<float> in(1024), out(1024);
  for (size_t i = 0; i < in.size(); ++i) in[i] = std::sin(0.37f * float(i)) * (1.0f + float(i % 7)) + (i >= 512 ? 0.5f : 0.0f);
  // Amplitudes reach 7.5: half a step is 0.5 of 15 steps and 0.12 of 64, and the scales' own rounding adds to it.
  for (auto [t, tolerance] : {std::pair{DType::q4_k, 0.68f}, std::pair{DType::q5_k, 0.36f}, std::pair{DType::q6_k, 0.20f}}) {
    std::vector<char> b(row_bytes(t, 1024));
    ASSERT_TRUE(quantize(t, in, b.data()));
    ASSERT_TRUE(dequantize(t, b.data(), out));
    float worst = 0;
    for (size_t i = 0; i < in.size(); ++i) worst = std::max(worst, std::fabs(in[i] - out[i]));
    EXPECT_LT(worst, tolerance) << format(t).name;
    EXPECT_GT(worst, 0) << format(t).name;
  }
}

/// Searching steps must be worth it: less squared error than a step from the extremes alone would leave.
TEST(Quantize, KFormatsSearchTheirSteps) {
  std::vector<float> in(4096), out(4096);
  uint32_t state = 7;
  const auto uniform = [&] { return float((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-24f; };
  for (float& v : in) v = (uniform() + uniform() + uniform() + uniform() - 2) * 0.1f;
  // Root mean square error in parts of the values' own, as a step of (max - min) / codes gives it (measured: 0.098, 0.047, 0.026).
  for (const auto& [t, bound] : {std::pair{DType::q4_k, 0.088}, {DType::q5_k, 0.045}, {DType::q6_k, 0.0225}}) {
    std::vector<char> b(row_bytes(t, 4096));
    ASSERT_TRUE(quantize(t, in, b.data()));
    ASSERT_TRUE(dequantize(t, b.data(), out));
    double error = 0, all = 0;
    for (size_t i = 0; i < in.size(); ++i) error += double(in[i] - out[i]) * (in[i] - out[i]), all += double(in[i]) * in[i];
    EXPECT_LT(std::sqrt(error / all), bound) << format(t).name;
  }
}

TEST(Quantize, AnyInputIsSafe) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (float odd : {inf, -inf, nan, 3e38f, 1e-40f, 0.0f}) {
    std::vector<float> in(256, odd), out(256);
    in[3] = 1;
    for (DType t : {DType::f32, DType::f16, DType::bf16, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0,
                    DType::q4_k, DType::q5_k, DType::q6_k, DType::mxfp4}) {
      std::vector<char> b(row_bytes(t, 256));
      EXPECT_TRUE(quantize(t, in, b.data()));
      EXPECT_TRUE(dequantize(t, b.data(), out));
    }
  }
}

TEST(Quantize, RefusesWhatHasNoRule) {
  std::vector<float> in(256);
  char b[512];
  auto r = quantize(DType::iq2_s, in, b);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, Code::unsupported);
  EXPECT_NE(r.error().what.find("IQ2_S"), std::string::npos);
  EXPECT_FALSE(r.error().remedy.empty());
  auto partial = quantize(DType::q8_0, std::span(in).first(33), b);
  ASSERT_FALSE(partial);
  EXPECT_EQ(partial.error().code, Code::invalid_argument);
}

TEST(Dequantize, RefusesIntegersByName) {
  std::vector<float> out(1);
  int32_t v = 1;
  auto r = dequantize(DType::i32, &v, out);
  ASSERT_FALSE(r);
  EXPECT_NE(r.error().what.find("I32"), std::string::npos);
}

TEST(Dequantize, ActivationFormats) {
  std::vector<float> out(256);
  uint8_t q8_1[36] = {}, q8_k[292] = {};
  const uint16_t half = f32_to_f16(0.5f);
  std::memcpy(q8_1, &half, 2);
  q8_1[4] = uint8_t(int8_t(-3));
  ASSERT_TRUE(dequantize(DType::q8_1, q8_1, std::span(out).first(32)));
  EXPECT_EQ(out[0], -1.5f);
  const float d = 0.25f;
  std::memcpy(q8_k, &d, 4);
  q8_k[4 + 255] = 100;
  ASSERT_TRUE(dequantize(DType::q8_k, q8_k, out));
  EXPECT_EQ(out[255], 25.0f);
}

TEST(Half, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const float f = f16_to_f32(uint16_t(h));
    if (std::isnan(f))
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(f))));
    else
      EXPECT_EQ(f32_to_f16(f), h);
  }
}

TEST(Half, RoundsToNearestEven) {
  for (uint32_t h = 0; h < 0x7bff; ++h) {
    const double a = f16_to_f32(uint16_t(h)), b = f16_to_f32(uint16_t(h + 1)), mid = (a + b) / 2;  // exact in float32
    EXPECT_EQ(f32_to_f16(float(mid)), h + (h & 1));
    EXPECT_EQ(f32_to_f16(std::nextafter(float(mid), 1e9f)), h + 1);
    EXPECT_EQ(f32_to_f16(std::nextafter(float(mid), -1.0f)), h);
    EXPECT_EQ(f32_to_f16(-float(mid)), 0x8000 | (h + (h & 1)));
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7c00);
}

TEST(BFloat, RoundsToNearestEven) {
  for (uint32_t u = 0; u < 0x7f80; ++u) {
    const float a = bf16_to_f32(uint16_t(u)), mid = std::bit_cast<float>(u << 16 | 0x8000);
    EXPECT_EQ(f32_to_bf16(a), u);
    EXPECT_EQ(f32_to_bf16(mid), u + (u & 1));
  }
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

struct Fp8Case {
  uint8_t bits;
  float e4m3, e5m2;
};
constexpr Fp8Case kFp8[] = {{0x00, 0.0f, 0.0f},        {0x01, 0x1p-9f, 0x1p-16f}, {0x07, 7 * 0x1p-9f, 1.75f * 0x1p-14f},
                            {0x08, 0x1p-6f, 0x1p-13f}, {0x38, 1.0f, 0.5f},        {0x3c, 1.5f, 1.0f},
                            {0x7b, 352.0f, 57344.0f},  {0x7e, 448.0f, NAN},       {0x7f, NAN, NAN},
                            {0xbc, -1.5f, -1.0f},      {0x7c, 384.0f, INFINITY},  {0x81, -0x1p-9f, -0x1p-16f}};

TEST(Fp8, ElementsFollowTheOcpTables) {
  for (const Fp8Case& c : kFp8) {
    const auto same = [](float a, float b) { return (std::isnan(a) && std::isnan(b)) || a == b; };
    EXPECT_TRUE(same(f8_e4m3_to_f32(c.bits), c.e4m3)) << int(c.bits) << " " << f8_e4m3_to_f32(c.bits);
    EXPECT_TRUE(same(f8_e5m2_to_f32(c.bits), c.e5m2)) << int(c.bits) << " " << f8_e5m2_to_f32(c.bits);
  }
  EXPECT_EQ(f8_e8m0_to_f32(127), 1.0f);
  EXPECT_EQ(f8_e8m0_to_f32(0), 0x1p-127f);
  EXPECT_EQ(f8_e8m0_to_f32(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(f8_e8m0_to_f32(255)));
}

TEST(Fp8, RoundsToNearestEven) {
  for (int b = 0; b < 0x7e; ++b) {
    const float a = f8_e4m3_to_f32(uint8_t(b)), next = f8_e4m3_to_f32(uint8_t(b + 1)), mid = (a + next) / 2;
    EXPECT_EQ(f32_to_f8_e4m3(a), b);
    EXPECT_EQ(f32_to_f8_e4m3(-a), b | 0x80);
    EXPECT_EQ(f32_to_f8_e4m3(mid), b + (b & 1)) << mid;
    EXPECT_EQ(f32_to_f8_e4m3(std::nextafter(mid, 1e9f)), b + 1) << mid;
    EXPECT_EQ(f32_to_f8_e4m3(std::nextafter(mid, -1.0f)), b) << mid;
  }
  for (float big : {448.0f, 449.0f, 1e9f, INFINITY}) EXPECT_EQ(f32_to_f8_e4m3(big), 0x7e);
  EXPECT_EQ(f32_to_f8_e4m3(-INFINITY), 0xfe);
  EXPECT_EQ(f32_to_f8_e4m3(NAN) & 0x7f, 0x7f);
  EXPECT_EQ(f32_to_f8_e4m3(1e-30f), 0);
}

TEST(Format, LookUps) {
  for (int i = 0; i < int(DType::count_); ++i) {
    const Format& f = format(DType(i));
    EXPECT_EQ(format_by_name(f.name), &f);
    EXPECT_EQ(format_by_ggml(uint32_t(f.ggml_type)), f.ggml_type >= 0 ? &f : nullptr);
    EXPECT_EQ(format_by_safetensors(f.safetensors), f.safetensors.empty() ? nullptr : &f);
  }
  EXPECT_EQ(format_by_name("q4_k")->dtype, DType::q4_k);
  EXPECT_EQ(format_by_ggml(4), nullptr);
  EXPECT_EQ(format_by_ggml(0xffffffff), nullptr);
  EXPECT_EQ(format_by_safetensors("f32"), nullptr);
  EXPECT_EQ(row_bytes(DType::q4_k, 4096), 16u * 144);
}

}  // namespace
}  // namespace isotope::tensor
