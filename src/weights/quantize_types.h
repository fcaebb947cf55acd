// Which format each tensor of a GGUF file gets. The mixtures are those that files of these names have everywhere ("Q4_K_M": most matrices in Q4_K, the
// output and some of the more sensitive ones in Q6_K), so that a file is what its name says.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isotope/result.h"
#include "tensor/format.h"

namespace isotope::weights {

/// A mixture: what `isotope quantize --type` takes.
struct FileType {
  std::string_view name;  ///< "Q4_K_M"
  uint32_t id;            ///< general.file_type
  tensor::DType main;     ///< of most matrices
};
std::span<const FileType> file_types();
const FileType* file_type_by_name(std::string_view);  ///< any case; "Q4_K" and "Q5_K" mean the _M mixtures; null if unknown
std::string file_type_names();

struct TypeOptions {
  const FileType* type = nullptr;
  bool pure = false;  ///< no mixture: every matrix gets the main type
  std::optional<tensor::DType> output = {}, embedding = {};  ///< of output.weight, of token_embd.weight
  std::vector<std::pair<std::string, tensor::DType>> by_name = {};  ///< shell-like patterns of tensor names, the first that fits wins
  int64_t layers = 0, experts = 0;
  bool tied = false;  ///< no output.weight: the embedding is the output too
};

struct TypeChoice {
  tensor::DType dtype{};
  std::string_view why = {};  ///< not empty: the type is another than the mixture's, and for what reason
};

/// The type of a tensor by its GGUF name. Vectors, norms, routers and convolutions stay as they are (`from`); a type whose blocks do not divide a row of k
/// gives way to one with smaller blocks, in the end to F16.
Result<TypeChoice> type_of(const TypeOptions&, std::string_view name, std::span<const int64_t> shape, tensor::DType from);

}  // namespace isotope::weights
