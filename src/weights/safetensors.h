// safetensors files (https://github.com/huggingface/safetensors#format): u64 length, JSON header, tensor data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "isotope/result.h"
#include "weights/checkpoint.h"

namespace isotope::weights {

constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;  ///< the reference implementation's limit

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  ///< in the order of their data; offsets from the start of the file; `file` is 0
  std::vector<std::pair<std::string, std::string>> metadata;  ///< "__metadata__"
};

/// Checks the first eight bytes of a file of `file_size` bytes and returns the length of the JSON header that follows.
Result<uint64_t> safetensors_header_bytes(std::span<const std::byte> first8, uint64_t file_size, const std::string& name);
/// Parses the JSON header. Tensors of more than four dimensions get their outermost ones folded into one.
Result<SafetensorsHeader> parse_safetensors(std::string_view json, uint64_t file_size, const std::string& name);
/// Both steps on the whole content of a file.
Result<SafetensorsHeader> parse_safetensors_file(std::span<const std::byte> content, const std::string& name);

/// model.safetensors.index.json: tensor name -> shard file, in the file's order.
Result<std::vector<std::pair<std::string, std::string>>> parse_safetensors_index(std::string_view json, const std::string& name);

}  // namespace isotope::weights
