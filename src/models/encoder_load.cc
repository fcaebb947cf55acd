// The tensors of an encoder, one row each, and their way into memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "models/encoder_arch.h"
#include "weights/coverage.h"
#include "weights/load_all.h"

namespace isotope::models {
namespace {

using weights::Checkpoint;
using weights::TensorEntry;

enum class Width : uint8_t { hidden, ffn, vocab, positions, types, labels };

/// Names are without ".weight" and ".bias". Exactly one of `linear` and `norm` is set.
template <class Owner>
struct Row {
  std::string_view gguf, bert, distil;
  Width rows = Width::hidden, cols = Width::hidden;
  ops::Linear Owner::*linear = nullptr;
  bool bias = true;
  std::vector<float> Owner::*norm = nullptr;
  std::vector<float> Owner::*norm_bias = nullptr;
};

constexpr Row<EncoderGlobals> kGlobals[] = {
    {.gguf = "token_embd", .bert = "embeddings.word_embeddings", .distil = "embeddings.word_embeddings", .rows = Width::vocab,
     .linear = &EncoderGlobals::words, .bias = false},
    {.gguf = "position_embd", .bert = "embeddings.position_embeddings", .distil = "embeddings.position_embeddings", .rows = Width::positions,
     .linear = &EncoderGlobals::positions, .bias = false},
    {.gguf = "token_types", .bert = "embeddings.token_type_embeddings", .distil = "", .rows = Width::types, .linear = &EncoderGlobals::types, .bias = false},
    {.gguf = "token_embd_norm", .bert = "embeddings.LayerNorm", .distil = "embeddings.LayerNorm", .norm = &EncoderGlobals::norm,
     .norm_bias = &EncoderGlobals::norm_bias},
};

constexpr Row<EncoderLayer> kLayer[] = {
    {.gguf = "attn_q", .bert = "attention.self.query", .distil = "attention.q_lin", .linear = &EncoderLayer::q},
    {.gguf = "attn_k", .bert = "attention.self.key", .distil = "attention.k_lin", .linear = &EncoderLayer::k},
    {.gguf = "attn_v", .bert = "attention.self.value", .distil = "attention.v_lin", .linear = &EncoderLayer::v},
    {.gguf = "attn_output", .bert = "attention.output.dense", .distil = "attention.out_lin", .linear = &EncoderLayer::o},
    {.gguf = "attn_output_norm", .bert = "attention.output.LayerNorm", .distil = "sa_layer_norm", .norm = &EncoderLayer::attn_norm,
     .norm_bias = &EncoderLayer::attn_norm_bias},
    {.gguf = "ffn_up", .bert = "intermediate.dense", .distil = "ffn.lin1", .rows = Width::ffn, .linear = &EncoderLayer::up},
    {.gguf = "ffn_down", .bert = "output.dense", .distil = "ffn.lin2", .cols = Width::ffn, .linear = &EncoderLayer::down},
    {.gguf = "layer_output_norm", .bert = "output.LayerNorm", .distil = "output_layer_norm", .norm = &EncoderLayer::ffn_norm,
     .norm_bias = &EncoderLayer::ffn_norm_bias},
};

class Loader {
 public:
  Loader(const Checkpoint& ck, ops::Ops& o, const EncoderConfig& c) : ck_(ck), o_(o), c_(c), arch_(*encoder_arch_of(ck)), gguf_(ck.container() == "gguf") {
    const std::string probe = std::string(arch_.prefix) + "embeddings.word_embeddings.weight";
    prefix_ = !gguf_ && ck.find(probe) ? std::string(arch_.prefix) : std::string();
  }

  Result<void> plan(Encoder& e) {
    for (const auto& row : kGlobals)
      if (row.rows != Width::types || c_.types > 0) ISO_CHECK_OK(add(row, e.globals, prefix_));
    const std::string_view layer = gguf_ ? "blk." : arch_.distil ? "transformer.layer." : "encoder.layer.";
    e.layers.resize(size_t(c_.layers));
    for (size_t l = 0; l < e.layers.size(); ++l)
      for (const auto& row : kLayer) ISO_CHECK_OK(add(row, e.layers[l], fmt::format("{}{}{}.", prefix_, layer, l)));
    return c_.labels > 0 ? add_head(e.globals) : Result<void>();
  }

  Result<void> check(const levers::Loading& levers) const {
    weights::Coverage coverage{missing_, {}};
    for (const TensorEntry& e : ck_.tensors())
      if (!used_.contains(&e) && !ignorable(e.name)) coverage.unexpected.push_back(e.name);
    return weights::require(ck_, coverage, levers);
  }

  std::vector<weights::LoadJob> take_jobs() { return std::move(jobs_); }

 private:
  static bool ignorable(std::string_view name) {
    static constexpr std::string_view kParts[] = {"position_ids", "cls.", "pooler.", "lm_head.", "vocab_", "rope_freqs"};
    return std::any_of(std::begin(kParts), std::end(kParts), [&](auto s) { return name.find(s) != name.npos; });
  }

  int64_t size_of(Width w) const {
    switch (w) {
      case Width::hidden: return c_.hidden;
      case Width::ffn: return c_.ffn;
      case Width::vocab: return c_.vocab;
      case Width::positions: return c_.context_length + c_.first_position;
      case Width::types: return c_.types;
      case Width::labels: return c_.labels;
    }
    return 0;
  }

  Result<void> add_head(EncoderGlobals& g) {
    const Row<EncoderGlobals> head{.gguf = "cls", .bert = arch_.head, .distil = arch_.head, .linear = &EncoderGlobals::head};
    const Row<EncoderGlobals> labels{.gguf = "cls.output", .bert = arch_.labels, .distil = arch_.labels, .rows = Width::labels,
                                     .linear = &EncoderGlobals::labels};
    ISO_CHECK_OK(add(head, g, ""));
    return add(labels, g, "");
  }

  template <class Owner>
  Result<void> add(const Row<Owner>& row, Owner& owner, const std::string& prefix) {
    const std::string name = prefix + std::string(gguf_ ? row.gguf : arch_.distil ? row.distil : row.bert);
    if (row.linear) {
      ops::Linear& slot = owner.*row.linear;
      ISO_CHECK_OK(add_tensor(name + ".weight", {size_of(row.rows), size_of(row.cols)}, [this, &slot](const Checkpoint::Data& d) -> Result<void> {
        ISO_TRY(slot.w, o_.pack(d.view));
        return {};
      }));
      return row.bias ? add_vector(name + ".bias", size_of(row.rows), slot.bias) : Result<void>();
    }
    // The oldest files call a norm's weight gamma and its bias beta.
    const bool old = !gguf_ && !ck_.find(name + ".weight") && ck_.find(name + ".gamma");
    ISO_CHECK_OK(add_vector(name + (old ? ".gamma" : ".weight"), size_of(row.rows), owner.*row.norm));
    return add_vector(name + (old ? ".beta" : ".bias"), size_of(row.rows), owner.*row.norm_bias);
  }

  Result<void> add_vector(const std::string& name, int64_t n, std::vector<float>& slot) {
    return add_tensor(name, {n}, [&slot](const Checkpoint::Data& d) -> Result<void> {
      slot.resize(size_t(d.view.elements()));
      return tensor::dequantize(d.view.dtype, d.view.data, slot);
    });
  }

  Result<void> add_tensor(const std::string& name, std::vector<int64_t> want, std::function<Result<void>(const Checkpoint::Data&)> use) {
    const TensorEntry* e = ck_.find(name);
    if (!e) return missing_.push_back(name), Result<void>();
    const auto shape = std::span(e->shape).first(size_t(std::clamp(e->rank, 0, 4)));
    if (!std::equal(shape.begin(), shape.end(), want.begin(), want.end()))
      return fail(Code::data_loss, fmt::format("tensor {} has shape [{}], the configuration asks for [{}]", name, fmt::join(shape, ", "), fmt::join(want, ", ")),
                  ck_.files()[size_t(e->file)], "use an intact checkpoint of that architecture");
    used_.insert(e);
    jobs_.push_back({{e}, [use = std::move(use)](std::span<Checkpoint::Data> data) { return use(data[0]); }});
    return {};
  }

  const Checkpoint& ck_;
  ops::Ops& o_;
  const EncoderConfig& c_;
  const EncoderArch& arch_;
  bool gguf_;
  std::string prefix_;
  std::set<const TensorEntry*> used_;
  std::vector<std::string> missing_;
  std::vector<weights::LoadJob> jobs_;
};

}  // namespace

Result<std::unique_ptr<Encoder>> load_encoder(const Checkpoint& ck, ops::Ops& o, const levers::Loading& levers, const EncoderConfig& config,
                                              const std::function<void(const LoadProgress&)>& progress) {
  auto e = std::make_unique<Encoder>();
  e->config = config;
  Loader loader(ck, o, e->config);
  ISO_CHECK_OK(loader.plan(*e));
  ISO_CHECK_OK(loader.check(levers));
  ISO_TRY([[maybe_unused]] const weights::LoadReport report, weights::load_all(ck, loader.take_jobs(), levers, progress));
  return e;
}

}  // namespace isotope::models
