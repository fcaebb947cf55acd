#include "golden.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "models/engram_vocab.h"
#include "text/token_texts.h"

namespace isotope::oracle {
namespace {

namespace fs = std::filesystem;

/// A safetensors file read whole; enough for goldens, which carry no config.json beside them.
class Arrays {
 public:
  explicit Arrays(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    ISO_CHECK(bytes_.size() > 8);
    uint64_t n = 0;
    std::memcpy(&n, bytes_.data(), 8);
    ISO_CHECK(n < bytes_.size() - 8);
    header_ = nlohmann::json::parse(bytes_.begin() + 8, bytes_.begin() + 8 + int64_t(n));
    data_ = 8 + n;
  }
  bool has(const std::string& name) const { return header_.contains(name); }
  template <class T>
  std::vector<T> get(const std::string& name) const {
    const auto range = header_.at(name).at("data_offsets").get<std::vector<size_t>>();
    ISO_CHECK(range[0] <= range[1] && data_ + range[1] <= bytes_.size());
    std::vector<T> out((range[1] - range[0]) / sizeof(T));
    std::memcpy(out.data(), bytes_.data() + data_ + range[0], out.size() * sizeof(T));
    return out;
  }

 private:
  std::vector<char> bytes_;
  nlohmann::json header_;
  size_t data_ = 0;
};

}  // namespace

std::vector<std::string> families() {
  std::vector<std::string> out;
  for (const auto& e : fs::directory_iterator(goldens_folder()))
    if (fs::exists(e.path() / "golden.safetensors")) out.push_back(e.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> families_with_heads() {
  std::vector<std::string> out;
  for (const std::string& f : families())
    if (nlohmann::json::parse(std::ifstream(goldens_folder() + "/" + f + "/meta.json"))["prompts"][0].contains("mtp_tolerance")) out.push_back(f);
  return out;
}

Golden read_golden(const std::string& family) {
  const std::string folder = goldens_folder() + "/" + family;
  const Arrays a(folder + "/golden.safetensors");
  const auto meta = nlohmann::json::parse(std::ifstream(folder + "/meta.json"));
  Golden g{.name = family};
  for (size_t k = 0; a.has("ids_" + std::to_string(k)); ++k) {
    const std::string at = "_" + std::to_string(k);
    g.prompts.push_back({a.get<int32_t>("ids" + at), a.get<int32_t>("greedy" + at), a.get<int32_t>("rows" + at), a.get<float>("margin" + at),
                         a.get<float>("logits" + at), meta["prompts"][k].value("tolerance", 1e-3)});
    Prompt& p = g.prompts.back();
    p.draft_tolerance = meta["prompts"][k].value("mtp_tolerance", 1e-3);
    if (a.has("mtp_rows" + at)) p.draft_rows = a.get<int32_t>("mtp_rows" + at);
    for (size_t h = 0; a.has("mtp_logits" + at + "_" + std::to_string(h)); ++h)
      p.draft_logits.push_back(a.get<float>("mtp_logits" + at + "_" + std::to_string(h)));
  }
  for (size_t i = 0; a.has("hidden_" + std::to_string(i)); ++i) g.hidden.push_back(a.get<float>("hidden_" + std::to_string(i)));
  return g;
}

Result<Loaded> load(const std::string& path, int64_t served_len, const ops::CpuOpsOptions& options, const levers::Engram& engram) {
  Loaded l;
  const levers::Loading levers{.num_threads = 2, .prefetch = false};  // the models are small; more threads would only cost
  ISO_TRY(l.checkpoint, weights::open_checkpoint(path, levers));
  ISO_TRY(models::ModelConfig config, models::parse_config(*l.checkpoint, {}, served_len));
  ISO_CHECK_OK(models::resolve_engram(config.engram, config.vocab, l.checkpoint->vocab(), text::read_token_texts, engram));
  ISO_TRY(l.ops, ops::make_cpu_ops(options));
  ISO_TRY(l.model, models::load_model(*l.checkpoint, *l.ops, levers, config));
  return l;
}

std::vector<float> rows_of(ops::Tensor t) {
  std::vector<float> out;
  for (int64_t r = 0; r < t.rows; ++r) out.insert(out.end(), t.row(r), t.row(r) + t.cols);
  return out;
}

ops::Tensor as_tensor(std::vector<float>& rows, int64_t cols) { return {rows.data(), int64_t(rows.size()) / cols, cols, cols}; }

}  // namespace isotope::oracle
