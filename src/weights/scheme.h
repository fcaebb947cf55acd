// Quantizing matrices in the layouts of Hugging Face checkpoints: `isotope quantize` writes the parts to files, online quantization (online.h) decodes them
// at once, and what either gives a model is the same bit for bit.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isotope/result.h"
#include "weights/quantized_decode.h"

namespace isotope::weights {

/// Round to nearest, symmetric around zero; scales come from the largest magnitude alone.
struct Scheme {
  std::string_view name;     ///< "ptpc_fp8"
  std::string_view aliases;  ///< separated by spaces
  Layout layout;
  int bits;
  int64_t columns;  ///< that share a scale; 0 = the whole row
  int64_t rows;     ///< that share a scale
  std::string_view meaning;
};
std::span<const Scheme> schemes();
const Scheme* scheme_by_name(std::string_view);  ///< any case; null if unknown
std::string scheme_names();

/// Whether rows of k have whole groups, and decode into a format of whole numbers.
bool fits(const Scheme&, int64_t k);

/// The shapes and types of the parts of a matrix [n, k], or of `matrices` of them stacked; without data. `source` decides the type of four-bit groups' scales,
/// which readers hold in the model's own type.
QuantizedParts parts_of(const Scheme&, int64_t matrices, int64_t n, int64_t k, tensor::DType source);

struct QuantizedMatrix {
  QuantizedParts parts;  ///< views into the two below
  std::vector<std::byte> codes, scales;
};
/// REQUIRES: fits(scheme, columns); a float format, or one that tensor::dequantize reads row by row. NaN and infinity are errors that name the row.
Result<QuantizedMatrix> quantize_matrix(const Scheme&, const tensor::HostTensor&, const std::string& name);

}  // namespace isotope::weights
