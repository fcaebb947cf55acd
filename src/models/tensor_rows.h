// One row for each tensor of a model: where it goes, what each container calls it, its shape, and when it must be there. The loader, the coverage check
// and packing read these rows; nothing else knows a tensor's name.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "models/config.h"
#include "models/layer.h"

namespace isotope::models {

/// A size that the configuration turns into a number.
/// values, kv_values: what q and kv are for heads of v. input: a layer's own embedding; inputs: those of all layers side by side. streams: of the residual.
enum class Size : uint8_t { one, hidden, ffn, vocab, head, q, kv, heads, values, kv_values, input, inputs, input_vocab, streams, streams_squared, low_rank };
/// `layer`: whose heads and widths count; null = the model's.
int64_t size_of(Size, const ModelConfig&, const LayerConfig* layer = nullptr);

/// The tensor may also be rows of a larger one: part `index` of `parts`, stacked along the first dimension.
struct Fused {
  std::string_view gguf, hf;
  std::array<Size, 3> parts{};
  int count = 0, index = 0;
};

/// Which layers of a hybrid model have a row's tensor.
enum class On : uint8_t {
  all, attending, recurrent,
  with_input,    ///< where layers have embeddings of their own
  with_experts,  ///< beside a dense block
  with_sinks,
};

/// `Owner` is Layer or Globals. Exactly one of `weight`, `bias` and `vector` is set.
template <class Owner>
struct TensorRow {
  std::string_view gguf, hf;                          ///< names within the layer (or the model)
  Size rows = Size::one, cols = Size::one;            ///< shape [rows, cols]; [rows] for vectors and biases
  ops::Linear Owner::*weight = nullptr;
  ops::Linear Owner::*bias = nullptr;
  std::vector<float> Owner::*vector = nullptr;
  Presence ModelConfig::*when = nullptr;              ///< null = always there
  bool ffn = false;                                   ///< of the dense feed-forward block, which layers with experts lack
  bool turns = false;                                 ///< rows of q and k, which rotary embedding pairs up
  Fused fused = {};
  On on = On::all;
};
using LayerRow = TensorRow<Layer>;
using GlobalRow = TensorRow<Globals>;

/// What Hugging Face files of a family call the tensors of a mixture of experts, within a layer. GGUF has one spelling for all.
struct MoeNames {
  std::string_view router, bias;                     ///< bias: added for the choice; empty = the family has none
  std::string_view expert, gate, up, down;           ///< one tensor for each expert: `expert` + index + "." + part
  std::string_view stacked_gate_up, stacked_gate, stacked_up, stacked_down;  ///< all experts in one tensor [E, rows, columns]; tried first
  std::string_view shared;                           ///< prefix of the block that sees every token
  std::array<std::string_view, 3> shared_part = {"gate_proj.weight", "up_proj.weight", "down_proj.weight"};
  bool turned = false;                               ///< stacks are [E, columns, rows]
  bool alternate = false;                            ///< gate and up take turns in a turned stack: rows 0, 2 … and 1, 3 …
  std::string_view router_bias, stacked_gate_up_bias, stacked_down_bias;     ///< empty = none
  std::string_view mxfp4_gate_up, mxfp4_down;        ///< + "_blocks" [E, rows, columns / 32, 16], + "_scales" [E, rows, columns / 32]
  std::string_view shared_gate;                      ///< empty = none
  std::string_view by_token;                         ///< the experts of each token [V, used]; empty = the family has no such layers
  std::string_view shared_gate_up, shared_down;      ///< of the shared block where gate and up are one matrix; empty = as shared_part says
  std::string_view to_latent, from_latent;           ///< empty = none
  std::string_view expert_scale;                     ///< of each expert's weight; empty = none
  /// Whether experts have a gate beside what goes up.
  constexpr bool gated() const { return !gate.empty() || !stacked_gate.empty() || !stacked_gate_up.empty(); }
};

/// What Hugging Face files of a family call the tensors of multi-token-prediction heads. GGUF has one spelling for all.
struct DraftNames {
  std::string_view layer;        ///< prefix of head k's layer within the model's names, "{}" = k; empty = those of the model's layers, counted on
  std::string_view own;          ///< the same for the tensors below; empty = the layer's
  std::string_view join;         ///< empty = from_embed and from_hidden
  std::string_view embed_norm, hidden_norm, norm;
  std::string_view embed = {}, head = {};  ///< may be there or not; empty = heads of the family have none
  std::string_view from_embed = {}, from_hidden = {}, streams = {};
  bool raw = false;              ///< heads read the state before the model's final norm, and hand on theirs before their own (Step 3.5)
  bool slides = false;           ///< their attention does, where the configuration has no kind of layer for them
  bool dense = false;            ///< they have no experts, as far as no tensor says otherwise
  std::string_view ffn_norm = {};///< the layer's norm before its feed-forward block, where it is not called what the model's is
};

/// Whether a layer has the row's tensor; rows of attention's own matrices and norms are those of layers that attend.
bool on_layer(const LayerRow&, const ModelConfig&, const LayerConfig&);
/// Whether files may hold the row's tensor for a layer that does without: keys and values of one that reads another layer's.
bool unused_on(const LayerRow&, const LayerConfig&);

std::span<const GlobalRow> global_rows();
std::span<const GlobalRow> layer_norm_globals();
std::span<const GlobalRow> layer_input_globals();  ///< Gemma 4, whose smaller models have embeddings of each layer's own, and 3n
std::span<const GlobalRow> mamba_globals();
std::span<const GlobalRow> lfm2_globals();
std::span<const GlobalRow> final_norm_globals();  ///< final_layernorm: Jamba, Falcon-H1
std::span<const GlobalRow> word_globals();        ///< word_embeddings: Bailing
std::span<const LayerRow> mamba_rows();      ///< one norm: Mamba 1 and 2
std::span<const LayerRow> lfm2_rows();
std::span<const LayerRow> nemotron_rows();       ///< one norm, attention, and feed-forward blocks without a gate: Nemotron-H
std::span<const LayerRow> granite_hybrid_rows(); ///< dense_rows() with the shared block's names
std::span<const LayerRow> jamba_rows();          ///< dense_rows() with feed_forward's names
std::span<const LayerRow> falcon_rows();         ///< the same, Falcon-H1
std::span<const LayerRow> mixed_norm_rows();     ///< norms before blocks or after them, by kind of layer: OLMo Hybrid
std::span<const LayerRow> dense_rows();      ///< Llama, Mistral, SmolLM, Qwen 2, Gemma 1, Phi 3, Granite
std::span<const LayerRow> qk_norm_rows();    ///< the same with a norm on each head of q and k: Qwen 3
std::span<const LayerRow> sandwich_rows();   ///< Gemma 2
std::span<const LayerRow> sandwich_qk_rows();///< Gemma 3
std::span<const LayerRow> post_norm_rows();  ///< OLMo 2
std::span<const LayerRow> post_norm_qk_rows();///< the same with a norm on each head: EXAONE 4
std::span<const LayerRow> late_norm_rows();  ///< as dense_rows(), but GGUF calls the norm before the feed-forward block post_attention_norm: Seed-OSS
std::span<const LayerRow> late_norm_qk_rows();///< the same with a norm on each head: GLM-4-MoE
std::span<const LayerRow> sink_rows();       ///< late_norm_rows() with attention sinks: GPT-OSS
std::span<const LayerRow> glm4_rows();       ///< sandwich with names of its own
std::span<const LayerRow> parallel_rows();   ///< one norm for both blocks: Cohere 2
std::span<const LayerRow> starcoder_rows();  ///< layer norms, a feed-forward block without gate: Starcoder 2
std::span<const LayerRow> hunyuan_rows();    ///< heads are normed under names of their own
std::span<const LayerRow> llama4_rows();     ///< the feed-forward block under names of its own
std::span<const LayerRow> gemma4_rows();
std::span<const LayerRow> gemma3n_rows();
std::span<const LayerRow> mimo_rows();       ///< sinks in layers that slide: MiMo-V2
std::span<const LayerRow> step_rows();       ///< a gate for each head's output: Step 3.5
std::span<const LayerRow> lfm3_rows();       ///< sandwich, and such gates
std::span<const LayerRow> longcat_rows();    ///< all but attention; two of our layers share an index
std::span<const LayerRow> latent_rows();     ///< all but attention, which the planner knows: DeepSeek
std::span<const LayerRow> latent_sink_rows();///< the same with sinks: HY-V4
std::span<const LayerRow> normless_rows();   ///< attention with a norm on each head; streams norm what blocks read: Qwen4-Exp
std::span<const GlobalRow> normless_globals();
std::span<const GlobalRow> deepseek4_globals();
std::span<const LayerRow> deepseek4_rows();  ///< all but what the planner knows
std::span<const LayerRow> wide_norm_rows();  ///< pre-norm with a norm over all of q, and of k: OLMoE

/// Tensors a file may hold that carry no weights of the model: rope tables (read with the configuration), buffers that exports kept (MiniMax's decays are
/// numbers of the layer), and the parts of a vision-language model that text does not need.
bool ignorable(std::string_view name);

}  // namespace isotope::models
