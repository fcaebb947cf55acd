// GGUF files, versions 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): header, key-values and tensor list.
// Every count, length and offset is checked against the file's size before it is used; nothing is allocated from a number in the
// file alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isotope/result.h"
#include "weights/checkpoint.h"
#include "weights/metadata.h"

namespace isotope::weights {

struct GgufHeader {
  uint32_t version = 0;
  uint64_t alignment = 32;
  uint64_t data_start = 0;           ///< offset of the tensor data in the file
  Metadata metadata;                 ///< views into the bytes that were parsed
  std::vector<TensorEntry> tensors;  ///< in the file's order; offsets from the start of the file; `file` is 0
};

/// Parses the first `head.size()` bytes of a file of `file_size` bytes. Returns nothing when the header goes on beyond `head`:
/// call again with more. `name` is the file's name for messages. The result holds views into `head`.
Result<std::optional<GgufHeader>> parse_gguf(std::span<const std::byte> head, uint64_t file_size, const std::string& name);

/// The parts of a split model, in order, if `path` is named like one ("NAME-00002-of-00005.gguf"); otherwise empty.
std::vector<std::string> gguf_split_paths(const std::string& path);

}  // namespace isotope::weights
