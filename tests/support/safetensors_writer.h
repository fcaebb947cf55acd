// Writes safetensors files for tests.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/bytes.h"
#include "tensor/format.h"

namespace isotope::test {

/// A file with any text as its header.
inline std::string safetensors_file(std::string_view header, std::string_view data) {
  return Bytes().text(header).raw(data).str();
}

class SafetensorsWriter {
 public:
  SafetensorsWriter& tensor(std::string_view name, const std::vector<int64_t>& shape, tensor::DType type, std::string_view data) {
    std::string dims;
    for (int64_t d : shape) dims += (dims.empty() ? "" : ",") + std::to_string(d);
    const size_t begin = data_.size();
    data_.append(data);
    entries_ += "\"" + std::string(name) + "\":{\"dtype\":\"" + std::string(tensor::format(type).safetensors) + "\",\"shape\":[" +
                dims + "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(data_.size()) + "]},";
    return *this;
  }
  SafetensorsWriter& tensor(std::string_view name, const std::vector<int64_t>& shape, tensor::DType type,
                            std::span<const float> values) {
    std::string data(tensor::row_bytes(type, int64_t(values.size())), '\0');
    if (!tensor::quantize(type, values, data.data())) std::abort();
    return tensor(name, shape, type, data);
  }
  std::string bytes() const {
    std::string header = "{" + entries_ + "\"__metadata__\":{\"format\":\"pt\"}}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    return safetensors_file(header, data_);
  }

 private:
  std::string entries_, data_;
};

}  // namespace isotope::test
