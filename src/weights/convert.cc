#include "weights/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>

#include "weights/json.h"
#include "weights/load_all.h"

namespace isotope::weights {

using tensor::DType;
using tensor::HostTensor;

namespace {

constexpr int64_t kChunkElements = int64_t{1} << 18;

tl::unexpected<Error> stopped(const std::string& path) { return fail(Code::cancelled, "interrupted; nothing was written", path, "run it again"); }

/// Calls f(i) for i in [0, n) on some threads; the first error ends the rest.
Result<void> parallel(int threads, int64_t n, const std::function<Result<void>(int64_t)>& f) {
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::optional<Error> error;
  const auto work = [&] {
    for (int64_t i; (i = next++) < n;)
      if (auto r = f(i); !r) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::move(r).error();
        next = n;
      }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (int t = 1; t < threads && t < n; ++t) others.emplace_back(work);
    } catch (const std::system_error&) {
      // No more threads to be had: those that run do the work.
    }
    work();
  }
  if (error) return tl::unexpected(std::move(*error));
  return {};
}

/// Counts, tells and asks.
class Meter {
 public:
  Meter(const ConvertOptions& o, int64_t total) : o_(o), total_(total) {}
  bool stop() const { return o_.stop && o_.stop(); }
  void add(int64_t bytes) {
    done_ += bytes;
    if (o_.progress) o_.progress(done_, total_);
  }

 private:
  const ConvertOptions& o_;
  int64_t done_ = 0, total_;
};

/// Rows of one source in another format.
struct RowsJob {
  HostTensor source;
  const SourceRows& rows;
  DType to;
  float shift;

  int64_t k() const { return source.cols(); }
  size_t row_bytes() const { return tensor::row_bytes(to, k()); }

  Result<void> run(int64_t begin, int64_t end, std::byte* out) const {
    const size_t from = tensor::row_bytes(source.dtype, k());
    std::vector<float> x(static_cast<size_t>(k()));
    for (int64_t r = begin; r < end; ++r, out += row_bytes()) {
      const int64_t at = rows.first + (rows.order.empty() ? r : int64_t(rows.order[size_t(r)]));
      const std::byte* row = static_cast<const std::byte*>(source.data) + size_t(at) * from;
      if (source.dtype == to && shift == 0) {
        std::memcpy(out, row, from);
        continue;
      }
      ISO_CHECK_OK(tensor::dequantize(source.dtype, row, x));
      if (shift != 0)
        for (float& v : x) v += shift;
      ISO_CHECK_OK(tensor::quantize(to, x, out));
    }
    return {};
  }
};

Result<void> convert(const Checkpoint& c, const Conversion& t, const SourceRows& s, const ConvertOptions& o, std::vector<std::byte>& out,
                     Meter& meter, const std::string& path) {
  const auto consume = [&](std::span<Checkpoint::Data> data) -> Result<void> {
    HostTensor source = data[0].view;
    if (source.rank == 1 && !s.order.empty()) source.shape = {source.shape[0], 1}, source.rank = 2;
    const RowsJob job{source, s, t.as.dtype, t.shift};
    out.resize(size_t(s.rows) * job.row_bytes());
    const int64_t each = std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, job.k())), chunks = (s.rows + each - 1) / each;
    return parallel(o.threads, chunks, [&](int64_t i) -> Result<void> {
      if (meter.stop()) return stopped(path);
      return job.run(i * each, std::min(s.rows, (i + 1) * each), out.data() + size_t(i * each) * job.row_bytes());
    });
  };
  return load_one(c, {{s.tensor}, consume});
}

/// What goes wrong with memory is an error like others.
template <class F>
Result<void> with_memory(const std::string& path, F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return fail(Code::resource_exhausted, "no memory left while converting", path, "free memory; the largest tensor is needed twice");
  }
}

}  // namespace

Result<void> write_gguf(const Checkpoint& c, const GgufValues& values, std::span<const Conversion> tensors, base::OutputFile file,
                        const ConvertOptions& o) {
  const std::string path = file.path();
  std::vector<GgufTensor> list;
  for (const Conversion& t : tensors) list.push_back(t.as);
  Meter meter(o, int64_t(gguf_data_bytes(list)));
  ISO_TRY(GgufWriter out, GgufWriter::begin(std::move(file), values, list));
  const auto all = [&]() -> Result<void> {
    std::vector<std::byte> buffer;
    for (const Conversion& t : tensors) {
      if (meter.stop()) return stopped(path);
      if (!t.values.empty()) {
        buffer.resize(t.as.bytes());
        ISO_CHECK_OK(tensor::quantize(t.as.dtype, t.values, buffer.data()));
        out.write(buffer);
        meter.add(int64_t(buffer.size()));
      }
      for (const SourceRows& s : t.from) {
        ISO_CHECK_OK(convert(c, t, s, o, buffer, meter, path));
        out.write(buffer);
        if (!out.fine()) return out.commit();  // a full disk, say; the rest would be work for nothing
        meter.add(int64_t(buffer.size()));
      }
      out.end_tensor();
    }
    return out.commit();
  };
  return with_memory(path, all);
}

// ---- safetensors --------------------------------------------------------------------------------------------------------------

std::vector<NamedShape> parts_in_file(const SchemeChoice& s) {
  const TensorEntry& e = *s.tensor;
  if (!s.scheme) return {{e.name, {.dtype = e.dtype, .bytes = size_t(e.bytes), .shape = e.shape, .rank = e.rank}}};
  QuantizedParts p = parts_of(*s.scheme, 1, e.shape[0], e.shape[1], e.dtype);
  if (p.scales.dtype == DType::f8_e8m0) p.scales.dtype = DType::u8;
  const bool packed = s.scheme->layout == Layout::packed_rows || s.scheme->layout == Layout::fp4;
  std::vector<NamedShape> out = {{e.name + (packed ? "_packed" : ""), p.codes}, {e.name + "_scale", p.scales}};
  if (s.scheme->layout == Layout::packed_rows) out.push_back({e.name + "_shape", {.dtype = DType::i64, .bytes = 16, .shape = {2}, .rank = 1}});
  return out;
}

namespace {

struct Shard {
  std::string name;
  std::vector<SchemeChoice> tensors;
  int64_t bytes = 0;
};

int64_t file_bytes(const SchemeChoice& s) {
  int64_t n = 0;
  for (const NamedShape& p : parts_in_file(s)) n += int64_t(p.view.bytes);
  return n;
}

std::vector<Shard> shards_of(std::span<const SchemeChoice> tensors, int64_t limit) {
  std::vector<Shard> out(1);
  for (const SchemeChoice& t : tensors) {
    const int64_t n = file_bytes(t);
    if (out.back().bytes > 0 && out.back().bytes + n > limit) out.emplace_back();
    out.back().tensors.push_back(t), out.back().bytes += n;
  }
  for (size_t i = 0; i < out.size(); ++i)
    out[i].name = out.size() == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, out.size());
  return out;
}

std::string header_of(const Shard& s) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  size_t at = 0;
  for (const SchemeChoice& t : s.tensors)
    for (const NamedShape& p : parts_in_file(t)) {
      const std::vector<int64_t> shape(p.view.shape.begin(), p.view.shape.begin() + p.view.rank);
      header[p.name] = {{"dtype", tensor::format(p.view.dtype).safetensors}, {"shape", shape}, {"data_offsets", {at, at + p.view.bytes}}};
      at += p.view.bytes;
    }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

/// The bytes of one tensor's parts in the order of parts_in_file().
Result<std::vector<std::byte>> bytes_of(const Checkpoint& c, const SchemeChoice& s) {
  std::vector<std::byte> out;
  const auto consume = [&](std::span<Checkpoint::Data> data) -> Result<void> {
    const HostTensor& v = data[0].view;
    const auto add = [&](const void* p, size_t n) {
      out.insert(out.end(), static_cast<const std::byte*>(p), static_cast<const std::byte*>(p) + n);
    };
    if (!s.scheme) return add(v.data, v.bytes), Result<void>();
    ISO_TRY(const QuantizedMatrix m, quantize_matrix(*s.scheme, v, s.tensor->name));
    add(m.codes.data(), m.codes.size());
    add(m.scales.data(), m.scales.size());
    const int64_t shape[2] = {s.tensor->shape[0], s.tensor->shape[1]};
    if (s.scheme->layout == Layout::packed_rows) add(shape, sizeof shape);
    return {};
  };
  ISO_CHECK_OK(load_one(c, {{s.tensor}, consume}));
  return out;
}

Result<void> write_shard(const Checkpoint& c, const Shard& s, const std::string& folder, const ConvertOptions& o, Meter& meter) {
  const std::string path = folder + "/" + s.name;
  ISO_TRY(base::OutputFile file, base::OutputFile::create(path, "OUT"));
  const std::string header = header_of(s);
  const uint64_t size = header.size();
  file.write(&size, sizeof size);
  file.write(header);
  // As many tensors at once as there are threads, written in order.
  const size_t each = size_t(std::max(1, o.threads));
  for (size_t first = 0; first < s.tensors.size(); first += each) {
    const size_t n = std::min(each, s.tensors.size() - first);
    std::vector<std::vector<std::byte>> bytes(n);
    ISO_CHECK_OK(parallel(o.threads, int64_t(n), [&](int64_t i) -> Result<void> {
      if (meter.stop()) return stopped(path);
      ISO_TRY(bytes[size_t(i)], bytes_of(c, s.tensors[first + size_t(i)]));
      return {};
    }));
    for (const auto& b : bytes) file.write(b.data(), b.size()), meter.add(int64_t(b.size()));
    if (!file.fine()) break;
  }
  return file.commit();
}

}  // namespace

Result<void> write_safetensors_folder(const Checkpoint& c, std::span<const SchemeChoice> tensors, const std::string& folder, int64_t shard_bytes,
                                      const ConvertOptions& o) {
  const std::vector<Shard> shards = shards_of(tensors, shard_bytes);
  int64_t total = 0;
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (const Shard& s : shards) {
    total += s.bytes;
    for (const SchemeChoice& t : s.tensors)
      for (const NamedShape& p : parts_in_file(t)) map[p.name] = s.name;
  }
  Meter meter(o, total);
  return with_memory(folder, [&]() -> Result<void> {
    for (const Shard& s : shards) ISO_CHECK_OK(write_shard(c, s, folder, o, meter));
    if (shards.size() == 1) return {};
    const nlohmann::ordered_json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
    return base::write_output(folder + "/model.safetensors.index.json", index.dump(1) + "\n", "OUT");
  });
}

}  // namespace isotope::weights
