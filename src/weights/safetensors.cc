#include "weights/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "weights/json.h"

namespace isotope::weights {

namespace {

using simdjson::dom::element;
using simdjson::dom::object;

constexpr const char* kAgain = "download the file again; it is damaged or was not written by safetensors";
constexpr uint64_t kMaxNameBytes = 1024;

/// Parses a JSON object. simdjson checks UTF-8 and bounds the depth.
Result<object> root_object(simdjson::dom::parser& parser, std::string_view json, const std::string& where) {
  object root;
  const simdjson::error_code e = parser.parse(json.data(), json.size()).get(root);
  if (e == simdjson::SUCCESS) return root;
  return fail(Code::data_loss, std::string("the file is no JSON object: ") + simdjson::error_message(e), where, kAgain);
}

/// Reads one tensor's object. Errors name the file and the tensor.
class EntryReader {
 public:
  EntryReader(std::string_view name, const std::string& file) : name_(name), file_(file) {}

  Result<TensorEntry> read(const object& o, uint64_t data_start, uint64_t data_bytes) {
    TensorEntry t;
    t.name = name_;
    ISO_CHECK_OK(dtype(o, t));
    ISO_CHECK_OK(shape(o, t));
    ISO_CHECK_OK(placement(o, t, data_bytes));
    t.offset += data_start;
    return t;
  }

 private:
  tl::unexpected<Error> refuse(std::string what, std::string remedy = kAgain, Code code = Code::data_loss) const {
    return fail(code, std::move(what), file_ + ", tensor " + quote_name(name_), std::move(remedy));
  }

  Result<void> dtype(const object& o, TensorEntry& t) const {
    std::string_view s;
    if (o["dtype"].get(s)) return refuse("the tensor has no string 'dtype'");
    const tensor::Format* f = tensor::format_by_safetensors(s);
    if (!f)
      return refuse("the tensor has dtype " + quote_name(s) + ", which is not supported", "convert the checkpoint to BF16, F16 or F32",
                    Code::unsupported);
    t.dtype = f->dtype;
    return {};
  }

  Result<void> shape(const object& o, TensorEntry& t) const {
    simdjson::dom::array dims;
    if (o["shape"].get(dims)) return refuse("the tensor has no array 'shape'");
    uint64_t product = 1;
    std::vector<int64_t> shape;
    for (const element d : dims) {
      uint64_t n;
      if (d.get(n) || n > uint64_t(INT64_MAX)) return refuse("its dimension " + std::to_string(shape.size()) + " is no size");
      if (__builtin_mul_overflow(product, n, &product) || product > uint64_t(INT64_MAX))
        return refuse("the product of the dimensions overflows 64 bits");
      if (shape.size() >= 64) return refuse("the tensor has more than 64 dimensions");
      shape.push_back(int64_t(n));
    }
    const size_t folded = shape.size() > t.shape.size() ? shape.size() - t.shape.size() : 0;
    for (size_t i = 0; i < folded; ++i)
      if (__builtin_mul_overflow(shape[i + 1], shape[i], &shape[i + 1]))
        return refuse("the product of the dimensions overflows 64 bits");
    t.rank = int(shape.size() - folded);
    std::copy(shape.begin() + ptrdiff_t(folded), shape.end(), t.shape.begin());
    t.bytes = product;
    return {};
  }

  // REQUIRES: t.bytes holds the number of elements.
  Result<void> placement(const object& o, TensorEntry& t, uint64_t data_bytes) const {
    simdjson::dom::array offsets;
    uint64_t begin = 0, end = 0;
    if (o["data_offsets"].get(offsets) || offsets.size() != 2 || offsets.at(0).get(begin) || offsets.at(1).get(end))
      return refuse("the tensor has no 'data_offsets' of two sizes");
    if (begin > end || end > data_bytes)
      return refuse("its data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) + "] do not lie in the file's " +
                    std::to_string(data_bytes) + " bytes of data");
    uint64_t bytes;
    if (__builtin_mul_overflow(t.bytes, uint64_t(tensor::format(t.dtype).bytes), &bytes) || bytes != end - begin)
      return refuse("the tensor has " + std::to_string(end - begin) + " bytes of data at data offset " + std::to_string(begin) +
                    ", its shape and dtype need " + std::to_string(t.bytes) + " x " +
                    std::to_string(tensor::format(t.dtype).bytes));
    t.offset = begin;
    t.bytes = bytes;
    return {};
  }

  std::string_view name_;
  const std::string& file_;
};

// The data must be covered exactly: the format knows neither gaps nor shared bytes.
Result<void> check_coverage(const std::vector<TensorEntry>& sorted, uint64_t data_start, uint64_t file_size,
                            const std::string& name) {
  uint64_t at = data_start;
  const TensorEntry* last = nullptr;
  for (const TensorEntry& t : sorted) {
    if (t.offset < at)
      return fail(Code::data_loss, "the tensor overlaps tensor " + quote_name(last->name) + " at offset " + std::to_string(t.offset),
                  name + ", tensor " + quote_name(t.name), kAgain);
    if (t.offset > at)
      return fail(Code::data_loss,
                  std::to_string(t.offset - at) + " bytes before it belong to no tensor (offset " + std::to_string(at) + ")",
                  name + ", tensor " + quote_name(t.name), kAgain);
    at = t.offset + t.bytes;
    last = &t;
  }
  if (at != file_size)
    return fail(Code::data_loss, std::to_string(file_size - at) + " bytes at the end belong to no tensor",
                name + ", offset " + std::to_string(at), kAgain);
  return {};
}

Result<void> read_metadata(const element& e, SafetensorsHeader& h, const std::string& name) {
  object o;
  if (e.get(o)) return fail(Code::data_loss, "'__metadata__' is no object", name, kAgain);
  for (const auto [key, value] : o) {
    std::string_view s;
    if (value.get(s)) return fail(Code::data_loss, "entry " + quote_name(key) + " of '__metadata__' is no string", name, kAgain);
    h.metadata.emplace_back(key, s);
  }
  return {};
}

}  // namespace

Result<uint64_t> safetensors_header_bytes(std::span<const std::byte> first8, uint64_t file_size, const std::string& name) {
  if (file_size < 8 || first8.size() < 8)
    return fail(Code::data_loss, "the file has " + std::to_string(file_size) + " bytes, a safetensors file has at least 8", name,
                "download the file again; it is cut off");
  uint64_t n;
  std::memcpy(&n, first8.data(), 8);
  const std::string claim = "the file claims a header of " + std::to_string(n) + " bytes";
  if (n > kMaxSafetensorsHeader)
    return fail(Code::data_loss, claim + ", at most " + std::to_string(kMaxSafetensorsHeader) + " are allowed",
                name + ", offset 0", kAgain);
  if (n > file_size - 8)
    return fail(Code::data_loss, claim + ", the file has " + std::to_string(file_size), name + ", offset 0",
                "download the file again; it is cut off or damaged");
  return n;
}

Result<SafetensorsHeader> parse_safetensors(std::string_view json, uint64_t file_size, const std::string& name) {
  const uint64_t data_start = 8 + json.size();
  if (json.empty() || json[0] != '{')
    return fail(Code::data_loss, "the header does not start with '{'", name + ", offset 8", kAgain);
  simdjson::dom::parser parser;
  ISO_TRY(const object root, root_object(parser, json, name + ", header at offset 8"));
  SafetensorsHeader h;
  std::unordered_set<std::string_view> seen;
  for (const auto [key, value] : root) {
    if (!seen.insert(key).second)
      return fail(Code::data_loss, "the tensor's name occurs twice", name + ", tensor " + quote_name(key), kAgain);
    if (key == "__metadata__") {
      ISO_CHECK_OK(read_metadata(value, h, name));
      continue;
    }
    if (!valid_name(key, kMaxNameBytes))
      return fail(Code::data_loss, "a tensor has no valid name", name + ", tensor " + quote_name(key), kAgain);
    object o;
    if (value.get(o)) return fail(Code::data_loss, "its entry is no object", name + ", tensor " + quote_name(key), kAgain);
    ISO_TRY(TensorEntry t, EntryReader(key, name).read(o, data_start, file_size - data_start));
    h.tensors.push_back(std::move(t));
  }
  std::stable_sort(h.tensors.begin(), h.tensors.end(),
                   [](const auto& a, const auto& b) { return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes; });
  ISO_CHECK_OK(check_coverage(h.tensors, data_start, file_size, name));
  return h;
}

Result<SafetensorsHeader> parse_safetensors_file(std::span<const std::byte> content, const std::string& name) {
  ISO_TRY(const uint64_t n, safetensors_header_bytes(content.first(std::min<size_t>(8, content.size())), content.size(), name));
  return parse_safetensors({reinterpret_cast<const char*>(content.data()) + 8, size_t(n)}, content.size(), name);
}

Result<std::vector<std::pair<std::string, std::string>>> parse_safetensors_index(std::string_view json, const std::string& name) {
  simdjson::dom::parser parser;
  ISO_TRY(const object root, root_object(parser, json, name));
  object map;
  if (root["weight_map"].get(map)) return fail(Code::data_loss, "the file has no object 'weight_map'", name, kAgain);
  std::vector<std::pair<std::string, std::string>> out;
  std::unordered_set<std::string_view> seen;
  for (const auto [tensor, value] : map) {
    std::string_view file;
    if (value.get(file)) return fail(Code::data_loss, "the file is no string", name + ", tensor " + quote_name(tensor), kAgain);
    if (!seen.insert(tensor).second)
      return fail(Code::data_loss, "the tensor's name occurs twice", name + ", tensor " + quote_name(tensor), kAgain);
    // A shard lies beside its index; anything that could lead elsewhere is refused.
    if (!valid_name(file, 255) || file.find('/') != file.npos || file.front() == '.')
      return fail(Code::data_loss, "shard " + quote_name(file) + " is no plain file name",
                  name + ", tensor " + quote_name(tensor), kAgain);
    out.emplace_back(tensor, file);
  }
  return out;
}

}  // namespace isotope::weights
