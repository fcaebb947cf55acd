// Writes GGUF files, version 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): first the head with every tensor's type and place, then the
// tensors' data in that order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/output_file.h"
#include "isotope/result.h"
#include "tensor/format.h"
#include "weights/metadata.h"

namespace isotope::weights {

/// Key-values in the order in which they were put; a key that is put again replaces the first one in its place.
class GgufValues {
 public:
  GgufValues& put(std::string_view key, uint32_t v);
  GgufValues& put(std::string_view key, float v);
  GgufValues& put(std::string_view key, bool v);
  GgufValues& put(std::string_view key, std::string_view v);
  GgufValues& put(std::string_view key, const char* v) { return put(key, std::string_view(v)); }
  GgufValues& put(std::string_view key, std::span<const std::string> v);
  GgufValues& put(std::string_view key, std::span<const float> v);
  GgufValues& put(std::string_view key, std::span<const int32_t> v);
  GgufValues& put(std::string_view key, std::span<const bool> v);
  GgufValues& put(std::string_view key, const GgufValue& v);  ///< as another file has it
  void remove(std::string_view key);

  size_t count() const { return values_.size(); }
  std::string bytes() const;

 private:
  struct Value {
    std::string key, bytes;  ///< `bytes`: type and value
  };
  GgufValues& set(std::string_view key, std::string bytes);
  std::vector<Value> values_;
};

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  ///< outermost first
  tensor::DType dtype{};
  uint64_t bytes() const;
};

constexpr uint64_t kGgufAlignment = 32;
/// Bytes of the data with the gaps that alignment leaves.
uint64_t gguf_data_bytes(std::span<const GgufTensor>);

class GgufWriter {
 public:
  /// Writes the head. Fails when a tensor's type has no id in GGUF files.
  static Result<GgufWriter> begin(base::OutputFile, const GgufValues&, std::span<const GgufTensor>);
  /// The data of the tensors one after another, in pieces of any size.
  void write(std::span<const std::byte> data) { file_.write(data.data(), data.size()), written_ += data.size(); }
  /// Ends a tensor: what follows begins at the next aligned place.
  void end_tensor();
  bool fine() const { return file_.fine(); }
  Result<void> commit() { return file_.commit(); }

 private:
  explicit GgufWriter(base::OutputFile f) : file_(std::move(f)) {}
  base::OutputFile file_;
  uint64_t written_ = 0;
};

}  // namespace isotope::weights
