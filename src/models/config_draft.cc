// Which multi-token-prediction heads a checkpoint has, and what their layers are. Configurations say how many (Qwen3-Next's and MiMo-V2's leave that to the
// tensors); of a layer's kind some say something and the tensors the rest.
#include <fmt/format.h>

#include <algorithm>

#include "models/config_fields.h"
#include "models/planner.h"

namespace isotope::models {
namespace {

using weights::Checkpoint;
using weights::Metadata;

/// Whether the layer of head k slides.
Result<bool> slides(const ConfigSource& s, const ModelConfig& c, int64_t k) {
  const Metadata& f = s.fields;
  if (s.arch->mixer != Mixer::attention || s.arch->windows == WindowRule::none) return s.arch->drafts->slides;
  if (!f.has("layer_types")) return s.arch->drafts->slides;
  ISO_TRY(const std::vector<std::string_view> types, f.strings("layer_types"));
  return int64_t(types.size()) > c.layers + k ? types[size_t(c.layers + k)] == "sliding_attention" : s.arch->drafts->slides;
}

/// DeepSeek V4: how many tokens the keys of the layer are compressed by.
Result<int64_t> ratio(const Metadata& f, const ModelConfig& c, int64_t k) {
  if (!f.is_array("compress_ratios")) return 0;
  ISO_TRY(const std::vector<int64_t> ratios, f.integers("compress_ratios"));
  return int64_t(ratios.size()) > c.layers + k ? ratios[size_t(c.layers + k)] : 0;
}

/// Step 3.5: where the gated block of the layer is clamped; lists that end with the model's layers say nothing of it.
Result<float> clamp(const Metadata& f, const char* key, const ModelConfig& c, int64_t k) {
  if (!f.is_array(key)) return 0.0f;
  ISO_TRY(const std::vector<double> limits, f.numbers(key));
  const double limit = int64_t(limits.size()) > c.layers + k ? limits[size_t(c.layers + k)] : 0;
  if (!(limit >= 0 && limit <= 1e6)) return wrong(f, fmt::format("{} holds {}, must be 0 (none) or above", key, limit));
  return float(limit);
}

/// A layer that attends, like the last one of the model's that sees as far; null if none does.
const LayerConfig* like(const ModelConfig& c, bool slides) {
  const auto found = std::find_if(c.layer.rbegin(), c.layer.rend(), [&](const LayerConfig& l) {
    return l.mixer == Mixer::attention && (l.window > 0) == slides && l.kv_of < 0;
  });
  return found == c.layer.rend() ? nullptr : &*found;
}

struct Found {
  LayerConfig layer;
  std::string unknown;  ///< why the head cannot be kept; empty = it can
};

Result<Found> head_layer(const ConfigSource& s, const Checkpoint& ck, const ModelConfig& c, int64_t k) {
  const bool dummy = ck.tensors().empty();  // then it has what the family's heads have
  const std::string prefix = draft_place(ck, *s.arch, c.layers, k).layer;
  const auto holds = [&](std::string_view gguf, std::string_view hf) { return ck.find(prefix + std::string(s.gguf ? gguf : hf)) != nullptr; };
  Found out;
  LayerConfig& l = out.layer;
  if (s.arch->sparse == Sparse::compressed) {
    ISO_TRY(const int64_t by, ratio(s.fields, c, k));
    if (by) out.unknown = fmt::format("head {} compresses keys by {}, which is not known of heads", k, by);
    l.window = c.layer.front().window;
  } else {
    ISO_TRY(const bool sliding, slides(s, c, k));
    const LayerConfig* const as = like(c, sliding);
    if (!as) out.unknown = fmt::format("head {} {}, as no layer of the model does", k, sliding ? "slides" : "sees all tokens");
    else l = *as;
  }
  l.by_token = false;
  l.sinks = l.sinks && (dummy || holds("attn_sinks.weight", "self_attn.attention_sink_bias"));
  ISO_TRY(l.expert_clamp, clamp(s.fields, "swiglu_limits", c, k));
  ISO_TRY(l.clamp, clamp(s.fields, "swiglu_limits_shared", c, k));
  const bool experts = dummy ? c.moe.experts > 0 && !s.arch->drafts->dense : s.arch->moe && holds("ffn_gate_inp.weight", s.arch->moe->router);
  if (experts && c.moe.experts == 0) out.unknown = fmt::format("head {} has experts, of which the configuration says nothing", k);
  l.moe = experts;
  if (s.arch->sparse == Sparse::latent) {
    l.choosing = Choosing::own;
    if (!dummy && !holds("indexer.attn_k.weight", "self_attn.indexer.wk.weight")) out.unknown = fmt::format("head {} has no indexer of its own", k);
  }
  return out;
}

}  // namespace

Result<void> parse_drafts(const ConfigSource& s, const Checkpoint& ck, ModelConfig& c) {
  const DraftNames* const names = s.arch->drafts;
  if (!names) return {};
  c.raw_drafts = names->raw;
  const bool dummy = ck.tensors().empty();
  const auto there = [&](int64_t k) { return holds_any(ck, draft_place(ck, *s.arch, c.layers, k).layer); };
  const bool announced = s.gguf || s.fields.has(kDraftCount[0]) || s.fields.has(kDraftCount[1]);
  if (!announced && !names->layer.empty())
    while (c.draft_layers < kMaxDrafts && there(c.draft_layers)) ++c.draft_layers;
  if (c.draft_layers > kMaxDrafts)
    return wrong(s.fields, fmt::format("{} multi-token-prediction layers are announced, at most {} are supported", c.draft_layers, kMaxDrafts));
  for (int64_t k = 0; k < c.draft_layers && (dummy || there(k)); ++k) {
    ISO_TRY(Found head, head_layer(s, ck, c, k));
    if (!head.unknown.empty()) {
      c.no_drafts = std::move(head.unknown);
      break;
    }
    c.layer.push_back(head.layer);
    ++c.draft_heads;
  }
  return {};
}

}  // namespace isotope::models
