// Writes GGUF files for tests.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/bytes.h"
#include "tensor/format.h"

namespace isotope::test {

class GgufWriter {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;  ///< written as general.alignment when it is not 32

  GgufWriter& u32(std::string_view key, uint32_t v) { return scalar(key, 4, v); }
  GgufWriter& i32(std::string_view key, int32_t v) { return scalar(key, 5, v); }
  GgufWriter& u16(std::string_view key, uint16_t v) { return scalar(key, 2, v); }
  GgufWriter& u64(std::string_view key, uint64_t v) { return scalar(key, 10, v); }
  GgufWriter& f32(std::string_view key, float v) { return scalar(key, 6, v); }
  GgufWriter& boolean(std::string_view key, bool v) { return scalar(key, 7, uint8_t(v)); }
  GgufWriter& string(std::string_view key, std::string_view v) {
    values_.text(key).put<uint32_t>(8).text(v);
    return count_value();
  }
  GgufWriter& strings(std::string_view key, const std::vector<std::string>& v) {
    values_.text(key).put<uint32_t>(9).put<uint32_t>(8).put<uint64_t>(v.size());
    for (const std::string& s : v) values_.text(s);
    return count_value();
  }
  GgufWriter& f32s(std::string_view key, std::span<const float> v) { return array(key, 6, v); }
  GgufWriter& i32s(std::string_view key, std::span<const int32_t> v) { return array(key, 5, v); }
  GgufWriter& u8s(std::string_view key, std::span<const uint8_t> v) { return array(key, 0, v); }

  /// `shape` outermost first. `data` must have the size that the type and shape need.
  GgufWriter& tensor(std::string_view name, std::vector<int64_t> shape, tensor::DType type, std::string_view data) {
    tensors_.push_back({std::string(name), std::move(shape), type, std::string(data)});
    return *this;
  }
  /// Quantizes (or rounds) `values` to `type` first.
  GgufWriter& tensor(std::string_view name, std::vector<int64_t> shape, tensor::DType type, std::span<const float> values) {
    std::string data(tensor::row_bytes(type, int64_t(values.size())), '\0');
    if (!tensor::quantize(type, values, data.data())) std::abort();
    return tensor(name, std::move(shape), type, data);
  }

  std::string bytes() const {
    Bytes out;
    const bool says_alignment = alignment != 32;
    out.raw("GGUF").put(version).put<uint64_t>(tensors_.size()).put<uint64_t>(n_values_ + says_alignment).raw(values_.str());
    if (says_alignment) out.text("general.alignment").put<uint32_t>(4).put(uint32_t(alignment));
    uint64_t offset = 0;
    for (const Item& t : tensors_) {
      out.text(t.name).put(uint32_t(t.shape.size()));
      for (size_t i = t.shape.size(); i-- > 0;) out.put(uint64_t(t.shape[i]));
      out.put(uint32_t(tensor::format(t.type).ggml_type)).put(offset);
      offset = (offset + t.data.size() + alignment - 1) / alignment * alignment;
    }
    if (!tensors_.empty()) out.pad_to(alignment);
    const size_t start = out.size();
    for (const Item& t : tensors_) {
      out.raw(t.data);
      while ((out.size() - start) % alignment) out.put('\0');
    }
    return out.str();
  }

 private:
  struct Item {
    std::string name;
    std::vector<int64_t> shape;
    tensor::DType type;
    std::string data;
  };
  GgufWriter& count_value() {
    ++n_values_;
    return *this;
  }
  template <class T>
  GgufWriter& scalar(std::string_view key, uint32_t type, T v) {
    values_.text(key).put(type).put(v);
    return count_value();
  }
  template <class T>
  GgufWriter& array(std::string_view key, uint32_t type, std::span<const T> v) {
    values_.text(key).put<uint32_t>(9).put(type).put<uint64_t>(v.size());
    for (T x : v) values_.put(x);
    return count_value();
  }

  Bytes values_;
  uint64_t n_values_ = 0;
  std::vector<Item> tensors_;
};

}  // namespace isotope::test
