// A checkpoint as its files say it: named tensors and metadata, whatever the container.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "isotope/engine.h"
#include "isotope/result.h"
#include "levers/groups.h"
#include "tensor/tensor.h"

namespace isotope::weights {

struct TensorEntry {
  std::string name;             ///< as in the file
  tensor::DType dtype{};
  std::array<int64_t, 4> shape{};  ///< outermost first (GGUF's order is reversed on reading)
  int rank = 0;
  int file = 0;                 ///< index into files()
  uint64_t offset = 0, bytes = 0;  ///< within the file
};

/// Metadata value of either container, read through typed getters that name the key when it is missing or of another type.
class Metadata;  // weights/metadata.h

/// Reads headers only; tensor data is touched on request. Every size, count and offset in a file is checked before it is used.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;
  virtual std::string_view container() const = 0;  ///< "gguf" or "safetensors"
  virtual const std::vector<TensorEntry>& tensors() const = 0;
  virtual const TensorEntry* find(std::string_view name) const = 0;
  virtual const std::vector<std::string>& files() const = 0;
  virtual const Metadata& metadata() const = 0;     ///< GGUF key-values, or config.json as a tree
  virtual const VocabSource& vocab() const = 0;
  /// The tensor's bytes: a view into the mapping, or a buffer read for it (lever ATOM_DISABLE_MMAP). Thread-safe. The returned object keeps the bytes
  /// alive; on release the pages are given back, so that packing never holds two copies of the model.
  /// A mapped view may fault when the file is cut meanwhile: read tensors through load_all.h, which turns that into an error.
  struct Data {
    tensor::HostTensor view;
    std::shared_ptr<void> keep;
    bool mapped = false;
    /// Gives the pages of bytes [from, from + n) back to the system before the rest; what is touched again is read again. Null for a buffer.
    std::function<void(size_t from, size_t n)> release;
  };
  virtual Result<Data> read(const TensorEntry&) const = 0;
  /// Fails when the tensor's file was written to or cut since it was opened.
  virtual Result<void> check_unchanged(const TensorEntry&) const = 0;
};

/// Opens a GGUF file (any part of a split set) or a Hugging Face directory.
Result<std::unique_ptr<Checkpoint>> open_checkpoint(const std::string& path, const levers::Loading&);

/// "DIR/model.safetensors, tensor 'name'": where an error about a tensor comes from.
std::string place_of(const Checkpoint&, const TensorEntry&);

}  // namespace isotope::weights
