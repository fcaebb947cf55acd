#include "weights/gguf_writer.h"

#include <algorithm>
#include <cstring>

#include "weights/json.h"

namespace isotope::weights {
namespace {

template <class T>
void add(std::string& to, T v) {
  char bytes[sizeof v];
  std::memcpy(bytes, &v, sizeof v);
  to.append(bytes, sizeof v);
}
void add_text(std::string& to, std::string_view v) {
  add(to, uint64_t(v.size()));
  to.append(v);
}

template <class T>
std::string scalar(GgufType type, T v) {
  std::string out;
  add(out, uint32_t(type));
  add(out, v);
  return out;
}

std::string array_head(GgufType type, size_t n) {
  std::string out;
  add(out, uint32_t(GgufType::array));
  add(out, uint32_t(type));
  add(out, uint64_t(n));
  return out;
}

template <class T, class As = T>
std::string array(GgufType type, std::span<const T> v) {
  std::string out = array_head(type, v.size());
  for (const T x : v) add(out, As(x));
  return out;
}

uint64_t aligned(uint64_t n) { return (n + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment; }

}  // namespace

GgufValues& GgufValues::set(std::string_view key, std::string bytes) {
  const auto at = std::find_if(values_.begin(), values_.end(), [&](const Value& v) { return v.key == key; });
  if (at != values_.end())
    at->bytes = std::move(bytes);
  else
    values_.push_back({std::string(key), std::move(bytes)});
  return *this;
}

void GgufValues::remove(std::string_view key) {
  std::erase_if(values_, [&](const Value& v) { return v.key == key; });
}

GgufValues& GgufValues::put(std::string_view key, uint32_t v) { return set(key, scalar(GgufType::u32, v)); }
GgufValues& GgufValues::put(std::string_view key, float v) { return set(key, scalar(GgufType::f32, v)); }
GgufValues& GgufValues::put(std::string_view key, bool v) { return set(key, scalar(GgufType::boolean, uint8_t(v))); }
GgufValues& GgufValues::put(std::string_view key, std::string_view v) {
  std::string out;
  add(out, uint32_t(GgufType::string));
  add_text(out, v);
  return set(key, std::move(out));
}
GgufValues& GgufValues::put(std::string_view key, std::span<const std::string> v) {
  std::string out = array_head(GgufType::string, v.size());
  for (const std::string& s : v) add_text(out, s);
  return set(key, std::move(out));
}
GgufValues& GgufValues::put(std::string_view key, std::span<const float> v) { return set(key, array(GgufType::f32, v)); }
GgufValues& GgufValues::put(std::string_view key, std::span<const int32_t> v) { return set(key, array(GgufType::i32, v)); }
GgufValues& GgufValues::put(std::string_view key, std::span<const bool> v) { return set(key, array<bool, uint8_t>(GgufType::boolean, v)); }
GgufValues& GgufValues::put(std::string_view key, const GgufValue& v) {
  std::string out;
  if (v.is_array)
    out = array_head(v.type, size_t(v.count));
  else
    add(out, uint32_t(v.type));
  out.append(reinterpret_cast<const char*>(v.bytes.data()), v.bytes.size());
  return set(key, std::move(out));
}

std::string GgufValues::bytes() const {
  std::string out;
  for (const Value& v : values_) {
    add_text(out, v.key);
    out += v.bytes;
  }
  return out;
}

uint64_t GgufTensor::bytes() const {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return uint64_t(rows) * tensor::row_bytes(dtype, shape.empty() ? 1 : shape.back());
}

uint64_t gguf_data_bytes(std::span<const GgufTensor> tensors) {
  uint64_t n = 0;
  for (const GgufTensor& t : tensors) n = aligned(n + t.bytes());
  return n;
}

Result<GgufWriter> GgufWriter::begin(base::OutputFile file, const GgufValues& values, std::span<const GgufTensor> tensors) {
  std::string head = "GGUF";
  add(head, uint32_t{3});
  add(head, uint64_t(tensors.size()));
  add(head, uint64_t(values.count()));
  head += values.bytes();
  uint64_t offset = 0;
  for (const GgufTensor& t : tensors) {
    const tensor::Format& f = tensor::format(t.dtype);
    if (f.ggml_type < 0)
      return fail(Code::unsupported, "GGUF has no type for " + std::string(f.name), file.path() + ", tensor " + quote_name(t.name),
                  "choose a type that GGUF has");
    add_text(head, t.name);
    add(head, uint32_t(t.shape.size()));
    for (size_t i = t.shape.size(); i-- > 0;) add(head, uint64_t(t.shape[i]));
    add(head, uint32_t(f.ggml_type));
    add(head, offset);
    offset = aligned(offset + t.bytes());
  }
  head.resize(size_t(aligned(head.size())), '\0');
  GgufWriter w(std::move(file));
  w.file_.write(head);
  return w;
}

void GgufWriter::end_tensor() {
  static constexpr std::byte kGap[kGgufAlignment] = {};
  write(std::span(kGap).first(size_t(aligned(written_) - written_)));
}

}  // namespace isotope::weights
