// From the tensors of one quantized matrix to rows of values. Internal to quantized.cc; the tests compare it with the methods' own libraries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "isotope/result.h"
#include "tensor/tensor.h"

namespace isotope::weights {

/// How codes lie in a matrix [n, k].
enum class Layout : uint8_t {
  floats8,      ///< E4M3 [.., n, k]; a scale for all, for each row, or for each block of rows and columns
  bytes,        ///< int8 [n, k]; a scale for all, each row, or each group of columns
  packed_rows,  ///< int32 [n, k * bits / 32], low bits first, codes biased by 2^(bits-1); zero points [n * bits / 32, groups] likewise (compressed-tensors)
  gptq,         ///< int32 [k * bits / 32, n], low bits first; zero points [groups, n * bits / 32], less one in the first version of the format
  awq,          ///< int32 [k, n / 8], columns 0 2 4 6 1 3 5 7 of each eight from the low bits up; zero points [groups, n / 8] likewise
  fp4,          ///< uint8 [n, k / 2], E2M1, low nibble first; scales [n, groups] in E4M3 or E8M0, and one for all
};

/// The parts of a matrix; those that its file lacks have no data.
struct QuantizedParts {
  Layout layout{};
  int bits = 8;
  int64_t matrices = 1;         ///< [matrices * n, k]: experts stacked in one tensor
  int64_t n = 0, k = 0;
  bool symmetric = false;       ///< gptq: config.json says that all zero points are the middle, so that codes less them keep eight bits
  bool zero_less_one = false;   ///< gptq: the file holds the zero point less one
  std::array<int64_t, 2> block{};  ///< floats8: rows and columns of a scale as config.json says; 0: as shapes and blocks of 128 make likely
  bool divide_by_global = false;///< fp4: the scale for all divides
  tensor::HostTensor codes, scales, zeros, columns, global;  ///< columns [k]: the group of each column
};

/// Checks that the parts' shapes belong together. `name` is the matrix, for messages.
Result<void> check_quantized(const QuantizedParts&, const std::string& name);
/// The format whose rows hold the values exactly: i4_g32, i8_g16, f8_g32, mxfp4, e2m1_g16 or, where scales change too often, f32.
tensor::DType decoded_type(const QuantizedParts&);
/// Writes [matrices * n, k] in decoded_type().
Result<void> decode_quantized(const QuantizedParts&, const std::string& name, std::span<std::byte> out);

}  // namespace isotope::weights
