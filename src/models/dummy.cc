#include "models/dummy.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/hash.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "models/loader.h"
#include "models/planner.h"
#include "weights/json.h"
#include "weights/metadata.h"
#include "weights/online.h"
#include "weights/vocab_source.h"

namespace isotope::models {
namespace {

using nlohmann::json;
using tensor::DType;
using weights::Checkpoint;
using weights::Metadata;
using weights::TensorEntry;

/// Uniform values of one tensor, 64 bits of a hash for four of them.
class Values {
 public:
  Values(std::string_view name, float limit) : seed_(base::xxh64(name)) {
    for (size_t i = 0; i < table_.size(); ++i) table_[i] = tensor::f32_to_bf16(limit * (2 * (float(i) + 0.5f) / float(table_.size()) - 1));
  }
  void fill(uint16_t* out, int64_t n) const {
    for (int64_t i = 0; i < n; i += 4) {
      uint64_t h = seed_ + uint64_t(i) * 0x9e3779b97f4a7c15u;
      h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
      h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
      h ^= h >> 31;
      for (int64_t j = i; j < std::min(n, i + 4); ++j, h >>= 16) out[j] = table_[h & 4095];
    }
  }

 private:
  uint64_t seed_;
  std::array<uint16_t, 4096> table_;
};

class DummyCheckpoint final : public Checkpoint {
 public:
  DummyCheckpoint(std::string config, Metadata metadata, VocabSource vocab, bool zeros)
      : files_{std::move(config)}, metadata_(std::move(metadata)), vocab_(std::move(vocab)), zeros_(zeros) {}

  std::string_view container() const override { return "safetensors"; }
  const std::vector<TensorEntry>& tensors() const override { return tensors_; }
  const std::vector<std::string>& files() const override { return files_; }
  const Metadata& metadata() const override { return metadata_; }
  const VocabSource& vocab() const override { return vocab_; }
  Result<void> check_unchanged(const TensorEntry&) const override { return {}; }
  const TensorEntry* find(std::string_view name) const override {
    const auto it = index_.find(std::string(name));
    return it == index_.end() ? nullptr : &tensors_[it->second];
  }

  Result<Data> read(const TensorEntry& t) const override {
    if (is_table(t.name)) return zeros(t);
    const auto buffer = std::make_shared<std::vector<uint16_t>>(size_t(t.bytes / 2 + t.bytes % 2));
    const int64_t n = int64_t(buffer->size());
    if (t.dtype == DType::u8) {  // MXFP4: any code is a number, exponents are one, and small
      if (t.name.ends_with("_scales")) std::memset(buffer->data(), kExponent, buffer->size() * 2);
      else if (!zeros_) Values(t.name, 1).fill(buffer->data(), n);
      return Data{.view = {.dtype = t.dtype, .data = buffer->data(), .bytes = size_t(t.bytes), .shape = t.shape, .rank = t.rank}, .keep = buffer};
    }
    const bool norm = t.rank == 1 && t.name.ends_with("weight"), factor = t.rank == 1 && (t.name.ends_with("scalar") || t.name.ends_with("scale"));
    if (t.dtype == DType::i32)  // every token goes to the first experts
      for (int64_t i = 0; i < n / 2; ++i) (*buffer)[size_t(2 * i)] = uint16_t(i % t.shape[1]);
    else if (norm || factor)
      std::fill(buffer->begin(), buffer->end(), tensor::f32_to_bf16(norm ? 1 - norm_shift_ : 1));
    else if (!zeros_ && t.rank >= 2) {
      const double rows = double(t.shape[size_t(t.rank - 2)]), cols = double(t.shape[size_t(t.rank - 1)]);
      Values(t.name, float(std::sqrt(6 / (rows + cols)))).fill(buffer->data(), n);
    }
    return Data{.view = {.dtype = t.dtype, .data = buffer->data(), .bytes = size_t(t.bytes), .shape = t.shape, .rank = t.rank}, .keep = buffer};
  }

  Result<void> add(const Planner::Missing& m) {
    const bool table = m.shape.size() == 2 && m.name.ends_with("tid2eid");  // of experts by token
    return add(m, table ? DType::i32 : is_table(m.name) ? DType::f8_e4m3 : DType::bf16);
  }
  Result<void> add(const Planner::Missing& m, DType dtype) {
    if (m.shape.empty() || m.shape.size() > 4)
      return fail(Code::unsupported, "no shape is known for tensor " + m.name, "--load-dummy", "this family needs its own files");
    TensorEntry t{.name = m.name, .dtype = dtype, .rank = int(m.shape.size())};
    int64_t n = 1;
    for (size_t i = 0; i < m.shape.size(); ++i) t.shape[i] = m.shape[i], n *= m.shape[i];
    t.offset = at_, t.bytes = uint64_t(n) * uint64_t(tensor::format(t.dtype).bytes), at_ += t.bytes;
    if (index_.emplace(t.name, tensors_.size()).second) tensors_.push_back(std::move(t));
    return {};
  }
  void set_norm_shift(float s) { norm_shift_ = s; }
  void set_vocab_size(int64_t n) { vocab_.vocab_size = n; }

 private:
  static constexpr int kExponent = 120;  ///< 2^-7
  static bool is_table(std::string_view name) { return name.ends_with(".engram.embed.weight"); }

  /// N-gram tables are larger than memory: their rows are zeros that take none.
  static Result<Data> zeros(const TensorEntry& t) {
    void* const at = ::mmap(nullptr, size_t(t.bytes), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
      return fail(Code::resource_exhausted, fmt::format("no addresses for an n-gram table of {} bytes", t.bytes), t.name, "raise the limit on address space (ulimit -v)");
    return Data{.view = {.dtype = t.dtype, .data = at, .bytes = size_t(t.bytes), .shape = t.shape, .rank = t.rank},
                .keep = std::shared_ptr<void>(at, [n = size_t(t.bytes)](void* p) { ::munmap(p, n); })};
  }

  std::vector<std::string> files_;
  Metadata metadata_;
  VocabSource vocab_;
  bool zeros_;
  float norm_shift_ = 0;
  uint64_t at_ = 0;
  std::vector<TensorEntry> tensors_;
  std::unordered_map<std::string, size_t> index_;
};

/// Opens the config.json without asking what it says.
Result<std::unique_ptr<DummyCheckpoint>> open_config(const std::string& path, bool zeros) {
  namespace fs = std::filesystem;
  std::error_code ec;
  const fs::path config = fs::is_directory(path, ec) ? fs::path(path) / "config.json" : fs::path(path);
  if (!fs::exists(config, ec)) return fail(Code::not_found, "there is no config.json", path, "give the folder that holds the model's config.json");
  if (config.extension() != ".json")
    return fail(Code::invalid_argument, "dummy weights are shaped by a config.json, which this is not", path,
                "give the folder of a Hugging Face model");
  ISO_TRY(const std::string text, base::read_text_file(config.string(), uint64_t{16} << 20));
  ISO_TRY(Metadata metadata, Metadata::from_json(text, config.string()));
  ISO_TRY(VocabSource vocab, weights::vocab_from_directory(config.parent_path().string(), metadata));
  return std::make_unique<DummyCheckpoint>(config.string(), std::move(metadata), std::move(vocab), zeros);
}

/// Whether a tensor is a stack of experts that may come as MXFP4.
bool is_stack(const MoeNames& n, const Planner::Missing& m) {
  return m.shape.size() == 3 && (m.name.ends_with(n.mxfp4_gate_up) || m.name.ends_with(n.mxfp4_down));
}
/// The shape of its codes: [experts, rows, columns / 32, 16]. REQUIRES: is_stack().
std::vector<int64_t> blocks_of(const MoeNames& n, const Planner::Missing& m) {
  return {m.shape[0], m.shape[n.turned ? 2 : 1], m.shape[n.turned ? 1 : 2] / 32, 16};
}

/// Adds every tensor that the model needs: a plan of what is missing from nothing is a list of everything.
Result<void> add_tensors(DummyCheckpoint& out, const std::string& path) {
  ISO_TRY(const ModelConfig c, parse_config(out));
  const Arch* const arch = arch_by_name(c.arch);
  if (!arch) return fail(Code::unsupported, "architecture '" + c.arch + "'", path, "supported: " + supported_archs());
  out.set_norm_shift(arch->hf_norm_shift);
  out.set_vocab_size(c.vocab);
  ISO_TRY(const auto ops, ops::make_cpu_ops({.threads = 1, .pin = false}));
  const auto model = arch->make();
  model->set_config(c);
  Planner plan(out, *ops, *arch, c);
  ISO_CHECK_OK(plan_weights(plan, *arch, *model));
  const bool mxfp4 = arch->moe && !arch->moe->mxfp4_down.empty() && out.metadata().text("quantization_config.quant_method") == "mxfp4";
  for (const Planner::Missing& m : plan.take_missing()) {
    if (!mxfp4 || !is_stack(*arch->moe, m)) {
      ISO_CHECK_OK(out.add(m));
      continue;
    }
    ISO_CHECK_OK(out.add({m.name + "_blocks", blocks_of(*arch->moe, m)}, DType::u8));
    std::vector<int64_t> scales = blocks_of(*arch->moe, m);
    scales.pop_back();
    ISO_CHECK_OK(out.add({m.name + "_scales", std::move(scales)}, DType::u8));
  }
  return {};
}

/// As the published checkpoint would be, by its config.json or the hf_quant_config.json beside it.
Result<std::unique_ptr<Checkpoint>> as_quantized(std::unique_ptr<DummyCheckpoint> c) {
  namespace fs = std::filesystem;
  const std::string beside = (fs::path(c->files()[0]).parent_path() / "hf_quant_config.json").string();
  std::error_code ec;
  if (!fs::exists(beside, ec)) return weights::quantize_as_promised(std::move(c));
  ISO_TRY(const std::string text, base::read_text_file(beside, uint64_t{16} << 20));
  ISO_TRY(const json tree, weights::parse_json(text, beside));
  return weights::quantize_as_promised(std::move(c), &tree);
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> dummy_checkpoint(const std::string& path, const std::string& kind) {
  if (kind != "zero" && kind != "empty" && kind != "xavier")
    return fail(Code::invalid_argument, "'" + kind + "' is no kind of weights", "--load-dummy", "choose zero, empty or xavier");
  ISO_TRY(auto out, open_config(path, kind != "xavier"));
  ISO_CHECK_OK(add_tensors(*out, path));
  base::log(base::LogLevel::warning, "{}: dummy weights ({}), nothing was learnt: answers mean nothing", path, kind);
  return as_quantized(std::move(out));
}

Result<std::unique_ptr<Checkpoint>> planned_checkpoint(const std::string& path) {
  ISO_TRY(auto out, open_config(path, true));
  ISO_CHECK_OK(add_tensors(*out, path));
  return as_quantized(std::move(out));
}

Result<std::unique_ptr<Checkpoint>> config_checkpoint(const std::string& path) { return open_config(path, true); }

}  // namespace isotope::models
