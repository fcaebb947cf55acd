// The reference decoding of every number format: what a block of bytes means. Kernels are tested against this.
#include <bit>

#include "tensor/block.h"

namespace isotope::tensor {

namespace {

// {f32 d[2]; i8 q[32]}: a scale for each 16
void i8_g16(const uint8_t* b, float* y) noexcept {
  for (int i = 0; i < 32; ++i) y[i] = float(int8_t(b[8 + i])) * load_f32(b + i / 16 * 4);
}
// {f32 d; e4m3 q[32]}
void f8_g32(const uint8_t* b, float* y) noexcept {
  for (int i = 0; i < 32; ++i) y[i] = f8_e4m3_to_f32(b[4 + i]) * load_f32(b);
}

// {f32 d[2]; u8 q[16]}: E2M1, a scale for each 16, halved because the table's values are doubled
void e2m1_g16(const uint8_t* b, float* y) noexcept {
  for (int i = 0; i < 32; ++i) y[i] = load_f32(b + i / 16 * 4) * float(kE2M1[(b[8 + i % 16] >> (i / 16 * 4)) & 15]);
}

// Half of the elements sit in the low nibbles, the other half in the high ones.
template <class F>
void nibbles(const uint8_t* q, int half, F&& put) noexcept {
  for (int i = 0; i < half; ++i) {
    put(i, q[i] & 15);
    put(i + half, q[i] >> 4);
  }
}

// {f32 d; u8 zero; u8 q[16]}: d * (q - zero)
void i4_g32(const uint8_t* b, float* y) noexcept {
  const float d = load_f32(b);
  nibbles(b + 5, 16, [&](int i, int q) { y[i] = d * float(q - b[4]); });
}

void f32(const uint8_t* b, float* y) noexcept { *y = load_f32(b); }
void f16(const uint8_t* b, float* y) noexcept { *y = load_f16(b); }
void bf16(const uint8_t* b, float* y) noexcept { *y = bf16_to_f32(load_u16(b)); }
void f64(const uint8_t* b, float* y) noexcept {
  double v;
  std::memcpy(&v, b, 8);
  *y = float(v);
}
void e4m3(const uint8_t* b, float* y) noexcept { *y = f8_e4m3_to_f32(*b); }
void e5m2(const uint8_t* b, float* y) noexcept { *y = f8_e5m2_to_f32(*b); }
void e8m0(const uint8_t* b, float* y) noexcept { *y = f8_e8m0_to_f32(*b); }

// {f16 d; u8 q[16]}: d * (q - 8)
void q4_0(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b);
  nibbles(b + 2, 16, [&](int i, int q) { y[i] = d * float(q - 8); });
}

// {f16 d, m; u8 q[16]}: d * q + m
void q4_1(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b), m = load_f16(b + 2);
  nibbles(b + 4, 16, [&](int i, int q) { y[i] = d * float(q) + m; });
}

// {f16 d; u32 high; u8 q[16]}: bit i of `high` is the fifth bit of element i
void q5_0(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b);
  const uint32_t high = load_u32(b + 2);
  nibbles(b + 6, 16, [&](int i, int q) { y[i] = d * float((q | int((high >> i) & 1) << 4) - 16); });
}

void q5_1(const uint8_t* b, float* y) noexcept {
  const float d = load_f16(b), m = load_f16(b + 2);
  const uint32_t high = load_u32(b + 4);
  nibbles(b + 8, 16, [&](int i, int q) { y[i] = d * float(q | int((high >> i) & 1) << 4) + m; });
}

void bytes32(const uint8_t* q, float d, float* y) noexcept {
  for (int i = 0; i < 32; ++i) y[i] = float(int8_t(q[i])) * d;
}
void q8_0(const uint8_t* b, float* y) noexcept { bytes32(b + 2, load_f16(b), y); }
void q8_1(const uint8_t* b, float* y) noexcept { bytes32(b + 4, load_f16(b), y); }  // {f16 d, sum·d; i8 q[32]}

// {e8m0 d; u8 q[16]}; every exponent is valid here, 0xff included (OCP reserves it for NaN, files of this container never had
// it).
void mxfp4(const uint8_t* b, float* y) noexcept {
  const float half = std::bit_cast<float>(b[0] < 2 ? 0x00200000u << b[0] : uint32_t(b[0] - 1) << 23);
  nibbles(b + 1, 16, [&](int i, int q) { y[i] = half * float(kE2M1[q]); });
}

// {ue4m3 d[4]; u8 q[4][8]}: four groups of 16; the sign bit of a scale is not used
void nvfp4(const uint8_t* b, float* y) noexcept {
  for (int g = 0; g < 4; ++g) {
    const int e = (b[g] >> 3) & 15, m = b[g] & 7;
    const float d = b[g] == 0x7f ? 0.0f
                    : e == 0     ? float(m) * 0x1p-10f
                                 : (1.0f + float(m) / 8.0f) * std::bit_cast<float>(uint32_t(e + 119) << 23);
    nibbles(b + 4 + 8 * g, 8, [&](int i, int q) { y[16 * g + i] = d * float(kE2M1[q]); });
  }
}

}  // namespace

DecodeBlock decode_simple(DType t) noexcept {
  switch (t) {
    case DType::f32: return f32;
    case DType::f16: return f16;
    case DType::bf16: return bf16;
    case DType::f64: return f64;
    case DType::i8_g16: return i8_g16;
    case DType::f8_g32: return f8_g32;
    case DType::i4_g32: return i4_g32;
    case DType::e2m1_g16: return e2m1_g16;
    case DType::f8_e4m3: return e4m3;
    case DType::f8_e5m2: return e5m2;
    case DType::f8_e8m0: return e8m0;
    case DType::q4_0: return q4_0;
    case DType::q4_1: return q4_1;
    case DType::q5_0: return q5_0;
    case DType::q5_1: return q5_1;
    case DType::q8_0: return q8_0;
    case DType::q8_1: return q8_1;
    case DType::mxfp4: return mxfp4;
    case DType::nvfp4: return nvfp4;
    default: return nullptr;
  }
}

Result<void> dequantize(DType t, const void* src, std::span<float> out) {
  const Format& f = format(t);
  DecodeBlock decode = decode_simple(t);
  if (!decode) decode = decode_k(t);
  if (!decode) decode = decode_codebook(t);
  if (!decode)
    return fail(Code::unsupported, "format " + std::string(f.name) + " holds no weights and has no float32 form", "dequantize",
                "save the tensor as F32, F16 or BF16 and load that");
  if (out.size() % size_t(f.block) != 0)
    return fail(Code::invalid_argument, std::to_string(out.size()) + " elements do not fill blocks of " + std::to_string(f.block),
                "dequantize " + std::string(f.name), "pass whole blocks");
  const auto* b = static_cast<const uint8_t*>(src);
  for (size_t i = 0; i < out.size(); i += size_t(f.block), b += f.bytes) decode(b, out.data() + i);
  return {};
}

}  // namespace isotope::tensor
