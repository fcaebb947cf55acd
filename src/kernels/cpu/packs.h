// How weights lie in memory for the kernels. Rows of a weight are cut into tiles of sixteen, one row a lane; a tile is a run of units along k.
// Floating formats have tiles of 64 rows, one k after another: four vectors at once hide the latency of the fma, and memory is still one stream.
// A unit holds `blocks` blocks of 32 k (K formats: 8, their 256), and these parts one after another:
//   float32 fields, sixteen lanes each
//   half precision fields, sixteen lanes each                        (d, then m)
//   small[a], small[b]: bytes, sixteen lanes for each 32 or 16 k     (scales and minima of the K formats)
//   for each block: the low plane, then the high plane of its codes
// Scales come first so that a tile is read from front to back: only then do the hardware's prefetchers keep up (measured on Zen 4: 19 GB/s against
// 31 GB/s for Q6_K).
// A plane of w bits holds the codes of 16 lanes x 32 k: group g = four consecutive k, byte p = 4 * lane + k % 4 of its group.
// Group g lies in 64-byte line g % w, shifted left by w * (g / w). So one load, shift and mask give the operand of a four-way dot product.
// Nothing is requantized: the numbers are the file's own, and decode_row() gives back tensor::dequantize() bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isotope::kernels::cpu {

constexpr int kLanes = 16;      ///< rows of a vector
constexpr int kFloatVectors = 4;  ///< vectors of a floating tile
constexpr int kBlock = 32;      ///< k of a block: one activation scale
constexpr int kGroups = 8;      ///< groups of four k in a block
constexpr int kScaledK = 128;   ///< k that share a scale in floating tiles that have scales

enum class Pack : uint8_t {
  q4_0, q4_1, q5_0, q5_1, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4, nvfp4,
  i8g16,  ///< any format whose values are whole multiples of one float32 for each 16 k: the IQ1, IQ2, IQ3 and TQ formats
  i8g128, ///< the same with one for each 128: int8 with a scale for each row
  i4g32, i4g128,  ///< four-bit codes with a float32 scale and a whole zero point for each 32 or 128 k: GPTQ, AWQ, compressed-tensors
  e2m1g16,        ///< E2M1 with a float32 scale for each 16 k: NVFP4 with a scale for all
  f16, bf16, f32,
  f8g128,  ///< E4M3 with a float32 scale for each 128 k
  count_
};

/// How scales apply to the integer dot product of a block; see step() in gemm_int.inl for the arithmetic.
enum class Kind : uint8_t {
  scale,         ///< d · dot
  scale_min,     ///< d · dot + m · sum
  small16,       ///< d · (s0 · dot0 + s1 · dot1), one whole-number scale for each 16 k
  small16_min,   ///< the same, minus dmin · (m0 · sum0 + m1 · sum1)
  scale16,       ///< d0 · dot0 + d1 · dot1: two fields for each block
  scale_zero,    ///< d · (dot - zero · sum), the zero point a whole number
  floating,      ///< no codes: 64 values for each k
};

struct PackRow {
  Pack pack;
  const char* name;
  Kind kind;
  int bits;        ///< codes are below 2^bits after the table look-up, and stand for code - 2^(bits-1) unless the kind has minima
  int blocks;      ///< blocks of 32 k in a unit; 0 = floating, where a unit is one k, or 128 behind a scale for each of the 64 rows
  int low, high;   ///< bits of the two planes
  int small_a, small_b;  ///< bytes a lane
  int halves, floats;    ///< fields a lane
  constexpr int block_bytes() const { return kLanes * kBlock * (low + high) / 8; }
  constexpr int halves_at() const { return kLanes * 4 * floats; }  ///< float32 fields are at 0
  constexpr int small_a_at() const { return halves_at() + kLanes * 2 * halves; }
  constexpr int small_b_at() const { return small_a_at() + kLanes * small_a; }
  constexpr int blocks_at() const { return small_b_at() + kLanes * small_b; }
  constexpr int unit_bytes() const { return blocks ? blocks_at() + blocks * block_bytes() : rows() * (4 * floats + unit_k() * bits / 8); }
  constexpr int unit_k() const { return blocks ? blocks * kBlock : floats ? kScaledK : 1; }
  constexpr bool integer() const { return kind != Kind::floating; }
  constexpr int rows() const { return integer() ? kLanes : kLanes * kFloatVectors; }  ///< of a tile
  /// Bytes of a tile of k columns: whole units, rounded up to a cache line.
  constexpr size_t tile_bytes(int64_t k) const {
    return (size_t((k + unit_k() - 1) / unit_k()) * size_t(unit_bytes()) + 63) / 64 * 64;
  }
};

constexpr PackRow kPacks[] = {
    //             name      kind               bits blocks low high small a, b  halves floats
    {Pack::q4_0,   "q4_0",   Kind::scale,       4,   1,     4,  0,   0,     0,   1,     0},
    {Pack::q4_1,   "q4_1",   Kind::scale_min,   4,   1,     4,  0,   0,     0,   2,     0},
    {Pack::q5_0,   "q5_0",   Kind::scale,       5,   1,     4,  1,   0,     0,   1,     0},
    {Pack::q5_1,   "q5_1",   Kind::scale_min,   5,   1,     4,  1,   0,     0,   2,     0},
    {Pack::q8_0,   "q8_0",   Kind::scale,       8,   1,     8,  0,   0,     0,   1,     0},
    {Pack::q2_k,   "q2_k",   Kind::small16_min, 2,   8,     2,  0,   16,    0,   2,     0},
    {Pack::q3_k,   "q3_k",   Kind::small16,     3,   8,     2,  1,   16,    0,   1,     0},
    {Pack::q4_k,   "q4_k",   Kind::scale_min,   4,   8,     4,  0,   8,     8,   2,     0},
    {Pack::q5_k,   "q5_k",   Kind::scale_min,   5,   8,     4,  1,   8,     8,   2,     0},
    {Pack::q6_k,   "q6_k",   Kind::small16,     6,   8,     4,  2,   16,    0,   1,     0},
    {Pack::iq4_nl, "iq4_nl", Kind::scale,       8,   1,     4,  0,   0,     0,   1,     0},
    {Pack::iq4_xs, "iq4_xs", Kind::scale,       8,   8,     4,  0,   8,     0,   1,     0},
    {Pack::mxfp4,  "mxfp4",  Kind::scale,       5,   1,     4,  0,   1,     0,   0,     0},
    {Pack::nvfp4,  "nvfp4",  Kind::scale16,     8,   2,     4,  0,   4,     0,   0,     0},
    {Pack::i8g16,  "i8g16",  Kind::scale16,     8,   1,     8,  0,   0,     0,   0,     2},
    {Pack::i8g128, "i8g128", Kind::scale,       8,   4,     8,  0,   0,     0,   0,     1},
    {Pack::i4g32,  "i4g32",  Kind::scale_zero,  4,   1,     4,  0,   1,     0,   0,     1},
    {Pack::i4g128, "i4g128", Kind::scale_zero,  4,   4,     4,  0,   1,     0,   0,     1},
    {Pack::e2m1g16, "e2m1g16", Kind::scale16,   8,   1,     4,  0,   0,     0,   0,     2},
    {Pack::f16,    "f16",    Kind::floating,    16,  0,     0,  0,   0,     0,   0,     0},
    {Pack::bf16,   "bf16",   Kind::floating,    16,  0,     0,  0,   0,     0,   0,     0},
    {Pack::f32,    "f32",    Kind::floating,    32,  0,     0,  0,   0,     0,   0,     0},
    {Pack::f8g128, "f8g128", Kind::floating,    8,   0,     0,  0,   0,     0,   0,     1},
};
constexpr const PackRow& pack_row(Pack p) { return kPacks[size_t(p)]; }

constexpr bool packs_are_in_order() {
  for (size_t i = 0; i < sizeof(kPacks) / sizeof(kPacks[0]); ++i)
    if (size_t(kPacks[i].pack) != i) return false;
  return sizeof(kPacks) / sizeof(kPacks[0]) == size_t(Pack::count_);
}
static_assert(packs_are_in_order(), "pack_row() indexes kPacks by pack");

// Values of four-bit codes, biased so that they are unsigned (facts of the formats).
constexpr uint8_t kIq4Table[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};  ///< IQ4_NL, IQ4_XS: value + 128
constexpr uint8_t kE2M1Table16[16] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4};          ///< E2M1 doubled, + 16
constexpr uint8_t kE2M1Table128[16] = {128, 129, 130, 131, 132, 134, 136, 140, 128, 127, 126, 125, 124, 122, 120, 116};  ///< + 128

}  // namespace isotope::kernels::cpu
