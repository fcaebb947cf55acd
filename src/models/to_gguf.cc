#include "models/to_gguf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "models/config_fields.h"
#include "models/loader.h"
#include "models/planner.h"
#include "models/rope.h"

namespace isotope::models {
namespace {

using weights::Checkpoint;
using weights::Conversion;
using weights::GgufValues;
using weights::Metadata;
using weights::TensorEntry;

struct Family {
  std::string_view arch, gguf;
};
// Families whose files differ from GGUF's in names, the order of rotated rows and norms' offset alone.
constexpr Family kFamilies[] = {{"llama", "llama"},   {"mistral", "llama"}, {"qwen2", "qwen2"},   {"qwen3", "qwen3"},      {"gemma", "gemma"},
                                {"gemma2", "gemma2"}, {"gemma3", "gemma3"}, {"mixtral", "llama"}, {"qwen3moe", "qwen3moe"}};

Result<const Family*> family_of(const std::string& arch, const std::string& source) {
  std::string names;
  for (const Family& f : kFamilies) {
    if (f.arch == arch) return &f;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", f.arch);
  }
  return fail(Code::unsupported, fmt::format("no conversion of '{}' to GGUF", arch), source,
              "these have one: " + names + "; for others use llama.cpp's converter, then quantize its file");
}

/// The keys under "<family>.".
class Keys {
 public:
  Keys(GgufValues& to, std::string_view family) : to_(to), prefix_(std::string(family) + ".") {}
  template <class T>
  void put(std::string_view key, T v) {
    to_.put(prefix_ + std::string(key), v);
  }
  void whole(std::string_view key, int64_t v) { put(key, uint32_t(v)); }

 private:
  GgufValues& to_;
  std::string prefix_;
};

void put_sizes(Keys& k, const ModelConfig& c) {
  k.whole("block_count", c.layers);
  k.whole("context_length", c.context_length);
  k.whole("embedding_length", c.hidden);
  k.whole("feed_forward_length", c.ffn ? c.ffn : c.moe.ffn);
  k.whole("attention.head_count", c.heads);
  k.whole("attention.head_count_kv", c.kv_heads);
  k.whole("attention.key_length", c.head_dim);
  k.whole("attention.value_length", c.head_dim);
  k.put("attention.layer_norm_rms_epsilon", c.norm_eps);
  k.whole("rope.dimension_count", c.ropes[0].rot);
  k.whole("vocab_size", c.vocab);
  if (c.attn_softcap != 0) k.put("attn_logit_softcapping", c.attn_softcap);
  if (c.final_softcap != 0) k.put("final_logit_softcapping", c.final_softcap);
  if (c.moe.experts) {
    k.whole("expert_count", c.moe.experts);
    k.whole("expert_used_count", c.moe.routing.used);
    k.whole("expert_feed_forward_length", c.moe.ffn);
  }
}

/// The window, and the period of layers without one where it is not the family's own.
Result<void> put_windows(Keys& k, const ModelConfig& c, const Metadata& m) {
  int64_t window = 0, period = 0;
  for (size_t i = 0; i < c.layer.size(); ++i) {
    window = std::max(window, c.layer[i].window);
    if (!c.layer[i].window && !period) period = int64_t(i) + 1;
  }
  if (!window) return {};
  if (c.arch != "gemma2" && c.arch != "gemma3")
    return unknown(m, fmt::format("layers of '{}' have a window of {} tokens", c.arch, window), "GGUF files of that family have none");
  k.whole("attention.sliding_window", window);
  const int64_t usual = c.arch == "gemma2" ? 2 : 6;
  if (!period) period = c.layers > usual ? 0 : usual;
  for (size_t i = 0; i < c.layer.size(); ++i)
    if ((c.layer[i].window == 0) != (period && (int64_t(i) + 1) % period == 0))
      return unknown(m, "layers with and without a window follow no period", "GGUF files of that family have one");
  if (period != usual) k.whole("attention.sliding_window_pattern", period);
  return {};
}

/// Rope: base and scaling as keys, Llama 3's ramp as a tensor of divisors.
Result<void> put_rope(Keys& k, const ModelConfig& c, const Metadata& f, std::vector<Conversion>& tensors) {
  const bool nested = f.has("rope_parameters.full_attention");
  const std::string at = nested ? "rope_parameters.full_attention." : f.has("rope_parameters") ? "rope_parameters." : "rope_scaling.";
  ISO_TRY(double theta, f.number_or("rope_theta", 10000.0));
  ISO_TRY(theta, f.number_or(at + "rope_theta", theta));
  k.put("rope.freq_base", float(theta));
  if (c.ropes.size() > 1) {
    ISO_TRY(double local, f.number_or("rope_local_base_freq", theta));
    ISO_TRY(local, f.number_or("rope_parameters.sliding_attention.rope_theta", local));
    k.put("rope.freq_base_swa", float(local));
  }
  ISO_TRY(const std::string_view type, f.string_or(f.has(at + "rope_type") ? at + "rope_type" : at + "type", "default"));
  const auto law = rope_type(type);
  if (!law || *law == RopeLaw::Type::plain) return {};
  ISO_TRY(const double factor, f.number_or(at + "factor", 1));
  ISO_TRY(const int64_t original, f.integer_or(at + "original_max_position_embeddings", c.context_length));
  switch (*law) {
    case RopeLaw::Type::linear:
      k.put("rope.scaling.type", "linear");
      k.put("rope.scaling.factor", float(factor));
      return {};
    case RopeLaw::Type::yarn:
      k.put("rope.scaling.type", "yarn");
      k.put("rope.scaling.factor", float(factor));
      k.whole("rope.scaling.original_context_length", original);
      return {};
    case RopeLaw::Type::llama3: {
      ISO_TRY(const ops::Rope plain, make_rope({.theta = theta}, c.ropes[0].rot, c.context_length));
      Conversion divisors{.as = {"rope_freqs.weight", {int64_t(plain.inv_freq.size())}, tensor::DType::f32}, .from = {}};
      for (size_t i = 0; i < plain.inv_freq.size(); ++i) divisors.values.push_back(plain.inv_freq[i] / c.ropes[0].inv_freq[i]);
      tensors.push_back(std::move(divisors));
      return {};
    }
    default:
      return unknown(f, fmt::format("rope type '{}'", type), "default, linear, llama3 and yarn can be converted");
  }
}

/// HF row for each row of the file.
std::vector<int32_t> pairs_from_halves(int64_t heads, int64_t head_dim, int64_t rot) {
  const std::vector<int32_t> ours = halves_from_pairs(heads, head_dim, rot);
  std::vector<int32_t> out(ours.size());
  for (size_t r = 0; r < ours.size(); ++r) out[size_t(ours[r])] = int32_t(r);
  return out;
}

class Tensors {
 public:
  Tensors(const Checkpoint& c, const Arch& a, const ModelConfig& m, std::vector<Conversion>& to)
      : ck_(c), arch_(a), c_(m), to_(to), names_(names_of(c)) {}

  Result<void> all() {
    for (const GlobalRow& row : arch_.globals())
      if (row.weight != &Globals::head || !c_.tied_head) ISO_CHECK_OK(add(row, row.weight == &Globals::head ? names_.head : names_.body, ""));
    for (int64_t l = 0; l < c_.layers; ++l) {
      const std::string from = names_.layer + std::to_string(l) + ".", to = fmt::format("blk.{}.", l);
      const bool moe = c_.layer[size_t(l)].moe;
      for (const LayerRow& row : arch_.rows())
        if (!(row.ffn && moe)) ISO_CHECK_OK(add(row, from, to));
      if (moe) ISO_CHECK_OK(experts(from, to));
    }
    return {};
  }

 private:
  Result<const TensorEntry*> find(const std::string& name, std::span<const int64_t> shape) const {
    const TensorEntry* e = ck_.find(name);
    if (!e) return fail(Code::data_loss, "tensor " + name + " is missing", ck_.metadata().source(), "use an intact checkpoint");
    if (!std::equal(shape.begin(), shape.end(), e->shape.begin(), e->shape.begin() + e->rank))
      return fail(Code::data_loss, fmt::format("tensor {} is not [{}]", name, fmt::join(shape, ", ")), ck_.files()[size_t(e->file)],
                  "use an intact checkpoint of that architecture");
    return e;
  }

  template <class Owner>
  Result<void> add(const TensorRow<Owner>& row, const std::string& from, const std::string& to) {
    const Presence when = row.when ? c_.*row.when : Presence::yes;
    const std::string name = from + std::string(row.hf);
    if (when == Presence::no || (when == Presence::maybe && !ck_.find(name))) return {};
    const int64_t n = size_of(row.rows, c_), shape[] = {n, size_of(row.cols, c_)};
    ISO_TRY(const TensorEntry* const e, find(name, std::span(shape).first(row.weight ? 2 : 1)));
    Conversion t{
        .as = {to + std::string(row.gguf), std::vector<int64_t>(shape, shape + (row.weight ? 2 : 1)), row.weight ? e->dtype : tensor::DType::f32}};
    t.from.push_back({.tensor = e, .rows = row.weight ? n : 1});
    if (row.turns && arch_.gguf_pairs) {
      t.from[0].rows = n;
      t.from[0].order = pairs_from_halves(n / c_.head_dim, c_.head_dim, c_.ropes[0].rot);
    }
    if (row.vector) t.shift = arch_.hf_norm_shift;
    to_.push_back(std::move(t));
    return {};
  }

  /// A router and three stacks of all experts.
  Result<void> experts(const std::string& from, const std::string& to) {
    const MoeNames& n = *arch_.moe;
    const int64_t e = c_.moe.experts, f = c_.moe.ffn, d = c_.hidden, router[] = {e, d};
    ISO_TRY(const TensorEntry* const r, find(from + std::string(n.router), router));
    to_.push_back({.as = {to + "ffn_gate_inp.weight", {e, d}, tensor::DType::f32}, .from = {{.tensor = r, .rows = e}}});
    struct Part {
      std::string_view hf;
      const char* gguf;
      int64_t rows, cols;
      int index;
    };
    for (const Part& p : {Part{n.gate, "ffn_gate_exps.weight", f, d, 0}, Part{n.up, "ffn_up_exps.weight", f, d, 1},
                          Part{n.down, "ffn_down_exps.weight", d, f, 0}}) {
      Conversion t{.as = {to + p.gguf, {e, p.rows, p.cols}, {}}};
      const bool down = p.rows == d && p.hf == n.down;
      const std::string stack = from + std::string(down ? n.stacked_down : n.stacked_gate_up);
      if (const TensorEntry* s = n.stacked_down.empty() ? nullptr : ck_.find(stack)) {
        const int64_t shape[] = {e, down ? d : 2 * f, p.cols};
        ISO_TRY(s, find(stack, shape));
        for (int64_t i = 0; i < e; ++i) t.from.push_back({.tensor = s, .first = i * shape[1] + p.index * f, .rows = p.rows});
      } else {
        const int64_t shape[] = {p.rows, p.cols};
        for (int64_t i = 0; i < e; ++i) {
          ISO_TRY(const TensorEntry* const one, find(fmt::format("{}{}{}.{}", from, n.expert, i, p.hf), shape));
          t.from.push_back({.tensor = one, .rows = p.rows});
        }
      }
      t.as.dtype = t.from[0].tensor->dtype;
      to_.push_back(std::move(t));
    }
    return {};
  }

  const Checkpoint& ck_;
  const Arch& arch_;
  const ModelConfig& c_;
  std::vector<Conversion>& to_;
  Names names_;
};

}  // namespace

Result<GgufModel> to_gguf(const Checkpoint& ck) {
  const Metadata& m = ck.metadata();
  ISO_TRY(const ConfigSource source, hf_source(ck, {}));
  ISO_TRY(const ModelConfig c, parse_config(ck));
  ISO_TRY(const Family* const family, family_of(c.arch, m.source()));
  GgufModel out{.layers = c.layers, .experts = c.moe.experts, .vocab = c.vocab, .tied = c.tied_head};
  out.values.put("general.architecture", family->gguf);
  out.values.put("general.type", "model");
  Keys keys(out.values, family->gguf);
  put_sizes(keys, c);
  ISO_CHECK_OK(put_windows(keys, c, m));
  ISO_CHECK_OK(put_rope(keys, c, source.fields, out.tensors));
  const double usual = 1 / std::sqrt(c.layers == source.arch->scalar_layers ? double(c.hidden) / c.heads : double(c.head_dim));
  if (c.attn_scale != float(usual))
    return unknown(m, fmt::format("attention multiplies scores by {}", c.attn_scale),
                   "GGUF files of that family mean the square root of the head's width");
  ISO_CHECK_OK(Tensors(ck, *source.arch, c, out.tensors).all());
  return out;
}

}  // namespace isotope::models
