#include "weights/safetensors_writer.h"

#include <nlohmann/json.hpp>

namespace isotope::weights {
namespace {

Result<std::string> header_of(std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata, const std::string& path) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t at = 0;
  for (const NamedTensor& t : tensors) {
    const std::string_view type = tensor::format(t.view.dtype).safetensors;
    if (type.empty()) return fail(Code::unsupported, "safetensors has no type for " + std::string(tensor::format(t.view.dtype).name), path + ", tensor " + t.name);
    if (header.contains(t.name)) return fail(Code::invalid_argument, "two tensors are called " + t.name, path);
    const std::vector<int64_t> shape(t.view.shape.begin(), t.view.shape.begin() + t.view.rank);
    header[t.name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {at, at + t.view.bytes}}};
    at += t.view.bytes;
  }
  std::string text = header.empty() ? "{}" : header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

Result<void> write_safetensors(base::OutputFile file, std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata) {
  ISO_TRY(const std::string header, header_of(tensors, metadata, file.path()));
  const uint64_t size = header.size();
  unsigned char prefix[8];
  for (int i = 0; i < 8; ++i) prefix[i] = static_cast<unsigned char>(size >> (8 * i));
  file.write(prefix, sizeof prefix);
  file.write(header);
  for (const NamedTensor& t : tensors) file.write(t.view.data, t.view.bytes);
  return file.commit();
}

}  // namespace isotope::weights
