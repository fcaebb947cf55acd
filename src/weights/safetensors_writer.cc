#include "weights/safetensors_writer.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
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

Result<void> write_safetensors(const std::string& path, std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata) {
  ISO_TRY(const std::string header, header_of(tensors, metadata, path));
  const std::string part = path + ".part";
  const auto failed = [&](const char* what) { return fail(Code::unavailable, std::string(what) + ": " + std::strerror(errno), path, "check folder and free space"); };
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(part.c_str(), "wb"), std::fclose);
  if (!file) return failed("cannot create the file");
  const uint64_t size = header.size();
  unsigned char prefix[8];
  for (int i = 0; i < 8; ++i) prefix[i] = static_cast<unsigned char>(size >> (8 * i));
  bool good = std::fwrite(prefix, 1, 8, file.get()) == 8 && std::fwrite(header.data(), 1, header.size(), file.get()) == header.size();
  for (const NamedTensor& t : tensors) good = good && std::fwrite(t.view.data, 1, t.view.bytes, file.get()) == t.view.bytes;
  good = std::fclose(file.release()) == 0 && good;
  if (good && std::rename(part.c_str(), path.c_str()) == 0) return {};
  const auto error = failed("cannot write the file");
  std::remove(part.c_str());
  return error;
}

}  // namespace isotope::weights
