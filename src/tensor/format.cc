#include "tensor/format.h"

#include <array>
#include <bit>

#include "base/check.h"

namespace isotope::tensor {

namespace {

// Block sizes and type ids as the GGUF and ggml format documents give them. Q8_1 and Q8_K are activation formats that files do
// not carry.
constexpr Format kFormats[] = {
    {DType::f32, "F32", "F32", 0, 1, 4, true},
    {DType::f16, "F16", "F16", 1, 1, 2, true},
    {DType::bf16, "BF16", "BF16", 30, 1, 2, true},
    {DType::f64, "F64", "F64", 28, 1, 8, false},
    {DType::i8, "I8", "I8", 24, 1, 1, false},
    {DType::i16, "I16", "I16", 25, 1, 2, false},
    {DType::i32, "I32", "I32", 26, 1, 4, false},
    {DType::i64, "I64", "I64", 27, 1, 8, false},
    {DType::u8, "U8", "U8", -1, 1, 1, false},
    {DType::boolean, "BOOL", "BOOL", -1, 1, 1, false},
    {DType::q4_0, "Q4_0", "", 2, 32, 18, true},
    {DType::q4_1, "Q4_1", "", 3, 32, 20, true},
    {DType::q5_0, "Q5_0", "", 6, 32, 22, true},
    {DType::q5_1, "Q5_1", "", 7, 32, 24, true},
    {DType::q8_0, "Q8_0", "", 8, 32, 34, true},
    {DType::q8_1, "Q8_1", "", 9, 32, 36, false},
    {DType::q2_k, "Q2_K", "", 10, 256, 84, true},
    {DType::q3_k, "Q3_K", "", 11, 256, 110, true},
    {DType::q4_k, "Q4_K", "", 12, 256, 144, true},
    {DType::q5_k, "Q5_K", "", 13, 256, 176, true},
    {DType::q6_k, "Q6_K", "", 14, 256, 210, true},
    {DType::q8_k, "Q8_K", "", 15, 256, 292, false},
    {DType::iq1_s, "IQ1_S", "", 19, 256, 50, true},
    {DType::iq1_m, "IQ1_M", "", 29, 256, 56, true},
    {DType::iq2_xxs, "IQ2_XXS", "", 16, 256, 66, true},
    {DType::iq2_xs, "IQ2_XS", "", 17, 256, 74, true},
    {DType::iq2_s, "IQ2_S", "", 22, 256, 82, true},
    {DType::iq3_xxs, "IQ3_XXS", "", 18, 256, 98, true},
    {DType::iq3_s, "IQ3_S", "", 21, 256, 110, true},
    {DType::iq4_nl, "IQ4_NL", "", 20, 32, 18, true},
    {DType::iq4_xs, "IQ4_XS", "", 23, 256, 136, true},
    {DType::tq1_0, "TQ1_0", "", 34, 256, 54, true},
    {DType::tq2_0, "TQ2_0", "", 35, 256, 66, true},
    {DType::mxfp4, "MXFP4", "", 39, 32, 17, true},
    {DType::nvfp4, "NVFP4", "", 40, 64, 36, true},
    {DType::f8_e4m3, "F8_E4M3", "F8_E4M3", -1, 1, 1, true},
    {DType::f8_e5m2, "F8_E5M2", "F8_E5M2", -1, 1, 1, true},
    {DType::f8_e8m0, "F8_E8M0", "F8_E8M0", -1, 1, 1, false},
    {DType::i8_g16, "I8_G16", "", -1, 32, 40, true},
    {DType::f8_g32, "F8_G32", "", -1, 32, 36, true},
    {DType::i4_g32, "I4_G32", "", -1, 32, 21, true},
    {DType::e2m1_g16, "E2M1_G16", "", -1, 32, 24, true},
};

constexpr bool rows_are_in_order() {
  for (size_t i = 0; i < std::size(kFormats); ++i)
    if (size_t(kFormats[i].dtype) != i) return false;
  return std::size(kFormats) == size_t(DType::count_);
}
static_assert(rows_are_in_order(), "format() indexes kFormats by dtype");

constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; }

bool same_text(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (upper(a[i]) != upper(b[i])) return false;
  return true;
}

}  // namespace

const Format& format(DType t) {
  ISO_CHECK(t < DType::count_);
  return kFormats[size_t(t)];
}

const Format* format_by_ggml(uint32_t ggml_type) {
  for (const Format& f : kFormats)
    if (f.ggml_type >= 0 && uint32_t(f.ggml_type) == ggml_type) return &f;
  return nullptr;
}

const Format* format_by_safetensors(std::string_view name) {
  for (const Format& f : kFormats)
    if (!f.safetensors.empty() && f.safetensors == name) return &f;
  return nullptr;
}

const Format* format_by_name(std::string_view name) {
  for (const Format& f : kFormats)
    if (same_text(f.name, name)) return &f;
  return nullptr;
}

float f16_to_f32(uint16_t h) noexcept {
  const uint32_t sign = uint32_t(h & 0x8000) << 16;
  const uint32_t exp = (h >> 10) & 31, man = h & 0x3ff;
  if (exp == 31) return std::bit_cast<float>(sign | 0x7f800000 | (man << 13));
  if (exp != 0) return std::bit_cast<float>(sign | ((exp + 112) << 23) | (man << 13));
  // Subnormal: man * 2^-24 is exact in float32.
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(float(man) * 0x1p-24f));
}

uint16_t f32_to_f16(float x) noexcept {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint16_t sign = uint16_t((u >> 16) & 0x8000);
  const uint32_t a = u & 0x7fffffff;
  if (a > 0x7f800000) return uint16_t(sign | 0x7e00 | ((a >> 13) & 0x3ff));  // NaN stays NaN, made quiet
  if (a >= 0x477ff000) return uint16_t(sign | 0x7c00);                       // 65520 and above round to infinity
  if (a < 0x38800000) {                                                      // below 2^-14: a multiple of 2^-24
    // Adding 0.5 puts the wanted bits at the end of the mantissa, and the addition itself rounds to nearest even.
    const float shifted = std::bit_cast<float>(a) + 0.5f;
    return uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  const uint32_t rounded = a + 0xfff + ((a >> 13) & 1);
  return uint16_t(sign | ((rounded - 0x38000000) >> 13));
}

uint16_t f32_to_bf16(float x) noexcept {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffff) > 0x7f800000) return uint16_t((u >> 16) | 0x40);
  return uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

float f8_e4m3_to_f32(uint8_t b) noexcept {
  const int exp = (b >> 3) & 15, man = b & 7;
  const uint32_t sign = uint32_t(b & 0x80) << 24;
  if ((b & 0x7f) == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000);
  if (exp == 0) return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(float(man) * 0x1p-9f));
  return std::bit_cast<float>(sign | (uint32_t(exp + 120) << 23) | (uint32_t(man) << 20));
}

uint8_t f32_to_f8_e4m3(float x) noexcept {
  const uint32_t u = std::bit_cast<uint32_t>(x), a = u & 0x7fffffff;
  const uint8_t sign = uint8_t((u >> 24) & 0x80);
  if (a > 0x7f800000) return uint8_t(sign | 0x7f);
  if (a >= 0x43e00000) return uint8_t(sign | 0x7e);  // 448
  if (a < 0x3c800000) {                              // below 2^-6: a multiple of 2^-9
    // Adding 2^14 puts the wanted bits at the end of the mantissa, and the addition itself rounds to nearest even.
    const float shifted = std::bit_cast<float>(a) + 0x1p14f;
    return uint8_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x46800000));
  }
  const uint32_t rounded = a + 0x7ffff + ((a >> 20) & 1);
  return uint8_t(sign | ((rounded - 0x3c000000) >> 20));
}

float f8_e5m2_to_f32(uint8_t b) noexcept { return f16_to_f32(uint16_t(b << 8)); }

float f8_e8m0_to_f32(uint8_t b) noexcept {
  if (b == 0xff) return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(b == 0 ? 0x00400000u : uint32_t(b) << 23);
}

}  // namespace isotope::tensor
