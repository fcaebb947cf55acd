// The architecture list: one row for each family. Everything in which families with the same order of computation differ is a column here.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "models/layer.h"
#include "models/tensor_rows.h"

namespace isotope::models {

/// Which layers slide where config.json has no `layer_types` and a window is set.
enum class WindowRule : uint8_t {
  none,        ///< the family has no window, whatever `sliding_window` says
  every,       ///< all layers
  from_layer,  ///< layers from `max_window_layers` on, if `use_sliding_window`
  nope,        ///< layers without rotary embedding, if `use_sliding_window`
  pattern,     ///< all but every n-th, n = `sliding_window_pattern`
  chunks,      ///< layers with rotary embedding, in chunks of `attention_chunk_size`
};

/// What an indexer chooses, and where.
enum class Sparse : uint8_t {
  none,
  latent,      ///< keys of latent attention (DeepSeek V3.2, GLM-5)
  blocks,      ///< blocks of keys, for each kv head by itself (MiniMax M3)
  compressed,  ///< compressed keys (DeepSeek V4)
  pooled,      ///< pools of keys, by one choice for all kv heads (Qwen4-Exp)
  shared,      ///< compressed keys and choices that several layers share (DeepSeek V4.1)
};

/// Several residual streams (ops::Streams), and what comes out of them in the end.
enum class Hyper : uint8_t {
  none,
  mixed,     ///< streams are mixed with each other; weights of their own bring them together (DeepSeek V4)
  averaged,  ///< streams are mixed with each other; in the end their mean (GLM-5-Next)
  apart,     ///< they are not; weights of their own bring them together (HY-V4)
  low_rank,  ///< they are not; mixtures of low rank, which norm as well (Qwen4-Exp)
};

struct Arch {
  std::string_view name;        ///< ours, and what `isotope inspect` prints
  std::string_view gguf;        ///< general.architecture; several separated by spaces; empty = another row reads those files
  std::string_view classes;     ///< config.json `architectures`, separated by spaces; vision-language wrappers whose text part is this family too
  std::string_view model_type;  ///< of the text model's configuration; several names separated by spaces
  std::unique_ptr<Transformer> (*make)();
  std::span<const LayerRow> (*rows)();
  std::span<const GlobalRow> (*globals)() = global_rows;
  Mixer mixer = Mixer::attention;   ///< of the layers that do not attend
  std::string_view mixer_names = {};///< prefix of their tensors within a layer, in Hugging Face files
  bool query_gate = false;          ///< attention's q_proj holds a gate beside each head's query
  bool beside = false;              ///< attention stands beside the mixer in each layer
  bool one_block = false;           ///< a layer is one block: a mixer, or a feed-forward block
  int sublayers = 1;                ///< so many of our layers share an index in Hugging Face names; "{}" in those is the place among them
  std::string_view latent_names = "self_attn.";  ///< prefix of latent attention's tensors within a layer, in Hugging Face files
  const MoeNames* moe = nullptr;///< set = a family with experts
  const DraftNames* drafts = nullptr;  ///< set = multi-token-prediction heads of the family are known
  bool maybe_moe = false;       ///< some of its models have none
  WindowRule windows = WindowRule::none;
  bool gguf_pairs = false;      ///< GGUF stores q and k rows so that neighbours turn together; the loader puts them back into halves
  float hf_norm_shift = 0;      ///< added to Hugging Face norm weights (Gemma stores w, multiplies by 1 + w; GGUF holds the sum)
  bool theta_or_nope = false;   ///< a configuration without rope_theta is one without rotary embedding (OLMo Hybrid)
  bool local_plain = false;     ///< sliding layers turn without rope scaling (OLMo 3)
  bool scaled_embedding = false;///< embeddings are multiplied by sqrt(hidden)
  bool interleaved = false;     ///< rotary embedding turns neighbours (2i, 2i + 1), in both containers
  bool nope_full = false;       ///< where some layers slide, the others do not turn (EXAONE 4)
  bool clamped_swiglu = false;  ///< experts clamp, by swiglu_limit and swiglu_alpha (GPT-OSS)
  bool latent = false;          ///< multi-head latent attention
  bool layer_norms = false;     ///< see ModelConfig
  bool norms_last = false, unit_heads = false, unit_values = false;
  Sparse sparse = Sparse::none;
  bool index_pairs = false;     ///< rotary embedding turns neighbours in the indexer's heads
  bool index_last = false;      ///< what turns comes last in the indexer's heads
  bool index_eps = false, latent_eps = false;  ///< norms of the indexer's keys, and on compressed vectors, take the model's epsilon
  Hyper hyper = Hyper::none;
  std::array<std::string_view, 3> hyper_names = {};  ///< prefixes of their tensors in Hugging Face files: around attention, around the other block, in the end
  bool by_layer = false;        ///< layers may differ in their heads and widths
  bool weighted_input = false;  ///< weights of experts multiply their input
  bool logit_factor = false;    ///< GGUF's logit_scale multiplies logits (Cohere); it divides them elsewhere
  bool by_logits = false;       ///< experts are chosen by logits, not by scores
  Presence qk_norm = Presence::yes;     ///< of rows that norm heads of q and k. maybe: config.json says it, in GGUF the tensors do
  Presence qkv_bias = Presence::maybe;  ///< yes: part of the family. maybe: config.json says it, in GGUF the tensors do
  int scalar_layers = 0;        ///< in GGUF: the model of this depth divides q·k by sqrt(hidden / heads), not sqrt(head_dim); no key says so
  std::string_view defaults;    ///< config.json values of the transformers class where a file leaves them out, as JSON
  std::string_view gguf_defaults = "{}";  ///< the same for GGUF keys, in config.json's names
};

std::span<const Arch> archs();
/// `moe`: a file with experts. Dense and mixed models of one name are two rows (Mixtral calls itself llama).
const Arch* arch_by_gguf(std::string_view general_architecture, bool moe = false);
/// Of several rows with that class, wrappers of different text models, the one of that model_type.
const Arch* arch_by_class(std::string_view hf_class, std::string_view model_type = {});
const Arch* arch_by_model_type(std::string_view);
const Arch* arch_by_name(std::string_view);
bool is_model_type(const Arch&, std::string_view);
/// For messages: GGUF names and classes of all rows.
std::string supported_archs();

}  // namespace isotope::models
