// Tensors of a checkpoint in other formats, tensor after tensor into a file: what `isotope quantize` does once it has decided. Peak memory: one tensor as the
// file has it and as it will be, besides pages of the mapping, which are given back.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "isotope/result.h"
#include "weights/checkpoint.h"
#include "weights/gguf_writer.h"
#include "weights/scheme.h"

namespace isotope::weights {

/// Rows [first, first + rows) of a tensor, counted over all its matrices; a vector is one row, or with an order as many as it has numbers. `order`, if not empty, lists rows as they are to follow, counted from `first`.
struct SourceRows {
  const TensorEntry* tensor = nullptr;
  int64_t first = 0, rows = 0;
  std::vector<int32_t> order = {};
};

/// A tensor of the new file: sources one above the other, or numbers.
struct Conversion {
  GgufTensor as;
  std::vector<SourceRows> from = {};
  std::vector<float> values = {};  ///< instead of sources
  float shift = 0;                 ///< added to every number
};

struct ConvertOptions {
  int threads = 1;
  /// Bytes of the new file's data so far and in all; from one thread.
  std::function<void(int64_t done, int64_t total)> progress = {};
  std::function<bool()> stop = {};  ///< asked often; true ends the work with Code::cancelled, and nothing is left of the file
};

/// Writes a GGUF file. Fails on the first tensor that cannot be read, converted or written, and leaves no file then.
Result<void> write_gguf(const Checkpoint&, const GgufValues&, std::span<const Conversion>, base::OutputFile, const ConvertOptions&);

/// A tensor of new safetensors files: quantized, or as it is.
struct SchemeChoice {
  const TensorEntry* tensor = nullptr;
  const Scheme* scheme = nullptr;  ///< null: copied
};
/// Bytes in the new files, and what will be called how there.
struct NamedShape {
  std::string name;
  tensor::HostTensor view;  ///< without data
};
std::vector<NamedShape> parts_in_file(const SchemeChoice&);

/// Writes model.safetensors, or shards of at most `shard_bytes` and their index, into a folder that exists.
Result<void> write_safetensors_folder(const Checkpoint&, std::span<const SchemeChoice>, const std::string& folder, int64_t shard_bytes, const ConvertOptions&);

}  // namespace isotope::weights
