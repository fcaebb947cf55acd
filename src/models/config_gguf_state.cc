// Layers with a recurrent state as GGUF files say them, in config.json's words: sizes by keys, kinds of layers by the tensors that are there.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/config_fields.h"
#include "weights/json.h"

namespace isotope::models {
namespace {

using nlohmann::json;
using weights::Checkpoint;
using weights::Metadata;

struct StateKey {
  Mixer mixer;
  std::string_view gguf;  ///< after "<architecture>."
  const char* field;
};
constexpr StateKey kKeys[] = {
    {Mixer::mamba2, "ssm.conv_kernel", "conv_kernel"},
    {Mixer::mamba2, "ssm.state_size", "state_size"},
    {Mixer::mamba2, "ssm.time_step_rank", "mamba_num_heads"},
    {Mixer::mamba2, "ssm.group_count", "n_groups"},
    {Mixer::mamba1, "ssm.conv_kernel", "conv_kernel"},
    {Mixer::mamba1, "ssm.state_size", "state_size"},
    {Mixer::mamba1, "ssm.time_step_rank", "time_step_rank"},
    {Mixer::delta, "ssm.conv_kernel", "linear_conv_kernel_dim"},
    {Mixer::delta, "ssm.state_size", "linear_key_head_dim"},
    {Mixer::delta, "ssm.group_count", "linear_num_key_heads"},
    {Mixer::delta, "ssm.time_step_rank", "linear_num_value_heads"},
    {Mixer::conv, "shortconv.l_cache", "conv_L_cache"},
    {Mixer::channel_delta, "ssm.conv_kernel", "linear_conv_kernel_dim"},
    {Mixer::channel_delta, "kda.head_dim", "linear_head_dim"},
    {Mixer::channel_delta, "attention.head_count", "linear_num_heads"},
};

/// A size that the file gives as a product: field = ssm.inner_size / what another key says.
struct Quotient {
  Mixer mixer;
  std::string_view by;
  const char* field;
};
constexpr Quotient kQuotients[] = {{Mixer::mamba2, "ssm.time_step_rank", "mamba_head_dim"},
                                   {Mixer::mamba1, "embedding_length", "expand"},
                                   {Mixer::delta, "ssm.time_step_rank", "linear_value_head_dim"}};

bool any_layer(const Checkpoint& c, int64_t layers, std::string_view tensor) {
  for (int64_t l = 0; l < layers; ++l)
    if (c.find(fmt::format("blk.{}.{}", l, tensor))) return true;
  return false;
}

/// A word of config.json's layer_types.
const char* kind_of(const Checkpoint& c, int64_t layer, bool one_block) {
  const auto has = [&](std::string_view tensor) { return c.find(fmt::format("blk.{}.{}", layer, tensor)) != nullptr; };
  for (const char* t : {"ssm_conv1d.weight", "ssm_conv1d_q.weight", "shortconv.conv.weight"})
    if (has(t)) return "linear_attention";
  if (one_block && has("ffn_gate_inp.weight")) return "moe";
  if (one_block && has("ffn_up.weight")) return "mlp";
  return has("attn_q.weight") || has("attn_output.weight") ? "full_attention" : "linear_attention";
}

}  // namespace

std::string_view gguf_state_key(const Arch& arch, std::string_view text) {
  for (const StateKey& k : kKeys)
    if (k.mixer == arch.mixer && text.find(k.field) != text.npos) return k.gguf;
  for (const Quotient& q : kQuotients)
    if (q.mixer == arch.mixer && text.find(q.field) != text.npos) return "ssm.inner_size";
  return {};
}

Result<void> read_gguf_state(const Checkpoint& c, const Arch& arch, const std::string& prefix, json& out) {
  const Metadata& m = c.metadata();
  if (arch.mixer == Mixer::attention) return {};
  for (const StateKey& k : kKeys) {
    if (k.mixer != arch.mixer) continue;
    ISO_TRY(out[k.field], m.integer(prefix + std::string(k.gguf)));
  }
  for (const Quotient& q : kQuotients) {
    if (q.mixer != arch.mixer) continue;
    ISO_TRY(const int64_t inner, m.integer(prefix + "ssm.inner_size"));
    ISO_TRY(const int64_t by, m.integer(prefix + std::string(q.by)));
    if (by < 1 || inner % by) return wrong(m, fmt::format("{}ssm.inner_size is {}, no multiple of {} {}", prefix, inner, q.by, by));
    out[q.field] = inner / by;
  }
  if (const std::string eps = prefix + "attention.layer_norm_epsilon"; !out.contains("rms_norm_eps") && m.has(eps)) {  // Nemotron-H
    ISO_TRY(out["rms_norm_eps"], m.number(eps));
  }
  ISO_TRY(const bool plain_norms, m.boolean_or(prefix + "ssm.dt_b_c_rms", false));
  if (plain_norms) return unknown(m, prefix + "ssm.dt_b_c_rms is true", "only models without it are supported");
  ISO_TRY(const int64_t drafts, m.integer_or(prefix + "nextn_predict_layers", 0));
  ISO_TRY(const int64_t blocks, m.integer(prefix + "block_count"));
  if (blocks < 1 || blocks > kMaxLayers || drafts < 0 || drafts >= blocks) return {};  // reported where sizes are read
  json kinds = json::array(), feeds = json::array();
  for (int64_t l = 0; l < blocks - drafts; ++l) {
    kinds.push_back(kind_of(c, l, arch.one_block));
    feeds.push_back(c.find(fmt::format("blk.{}.ffn_gate_inp.weight", l)) ? "sparse" : "dense");
  }
  out["layer_types"] = std::move(kinds);
  if (arch.moe) out["mlp_layer_types"] = std::move(feeds);
  out["use_conv_bias"] = any_layer(c, blocks, "ssm_conv1d.bias");
  if (arch.beside) out["mamba_rms_norm"] = any_layer(c, blocks, "ssm_norm.weight");
  return {};
}

}  // namespace isotope::models
