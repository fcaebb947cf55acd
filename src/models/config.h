// One frozen configuration, parsed once from GGUF keys or config.json; derived numbers are computed here and nowhere else. Nothing is guessed: an
// unknown activation, rope type or layer type is an error that names key and value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "isotope/result.h"
#include "models/engram_config.h"
#include "ops/ops.h"

namespace isotope::weights { class Checkpoint; }

namespace isotope::models {

/// Whether the checkpoint must hold a group of tensors. `maybe`: the container does not say; the tensors decide.
enum class Presence : uint8_t { no, maybe, yes };

/// What mixes the tokens of a layer; all but attention carry a recurrent state.
enum class Mixer : uint8_t { attention, delta, mamba2, mamba1, conv, channel_delta, lightning, none };

/// Which keys the queries of a layer see: all before them, those that the layer's own indexer chooses, or the ones that were chosen last.
enum class Choosing : uint8_t { none, own, last };

struct LayerConfig {
  Mixer mixer = Mixer::attention;
  int64_t window = 0;        ///< 0 = full attention
  bool rope = true;          ///< false = NoPE layer
  int rope_index = 0;        ///< which of ModelConfig::ropes
  bool moe = false;          ///< a mixture of experts instead of the dense feed-forward block
  bool feeds = true;         ///< false: the layer is a mixer alone (Nemotron-H)
  bool beside = false;       ///< attention beside the mixer, of the same input (Falcon-H1)
  int heads = 0, kv_heads = 0, head_dim = 0;  ///< of attention; ModelConfig's unless a family tells layers apart
  int value_dim = 0;         ///< of a head of v; head_dim unless a family tells them apart (MiMo-V2)
  int64_t ffn = 0;           ///< width of the dense feed-forward block; the same
  bool chunked = false;      ///< the window begins at multiples of its length (Llama 4)
  int kv_of = -1;            ///< the earlier layer whose keys and values this one reads, having none of its own (Gemma 3n and 4); -1 = its own
  bool values_are_keys = false;///< no projection of values: they are the projected keys (Gemma 4)
  bool sinks = false;        ///< in families where only some layers have them
  bool grows = false;        ///< queries grow with their position, by ModelConfig::growth
  float sparsity = 0;        ///< above 0: the gate keeps what stands out by so many deviations (Gemma 3n)
  float clamp = 0, expert_clamp = 0;  ///< see ops::Moe: of the dense or shared block, of experts
  Choosing choosing = Choosing::none;
  int ratio = 0;             ///< tokens to a compressed key; 0 = none
  int entries_of = -1;       ///< the earlier layer whose compressed keys this one reads, having none of its own (DeepSeek V4.1); -1 = its own
  bool by_token = false;     ///< the token says which experts it goes to
  int ngrams = -1;           ///< the layer's place among those that add embeddings of n-grams (NgramConfig); -1 = it does not
  bool attends() const { return mixer == Mixer::attention || beside; }
};

struct MoeConfig {
  int64_t experts = 0;       ///< 0 = none
  int64_t ffn = 0;           ///< width of an expert
  int64_t shared_ffn = 0;    ///< width of the block that sees every token; 0 = none
  ops::Routing routing;
  float swiglu_limit = 0, swiglu_alpha = 0, shared_limit = 0;  ///< see ops::Moe
  Presence choice_bias = Presence::no;
  int64_t identity = 0;      ///< experts after these that give back what they get
  int64_t latent = 0;        ///< width that experts read and write; 0 = the model's own
};

/// Multi-head latent attention (DeepSeek V2, arXiv:2405.04434): the keys and values of all heads come from one vector a token.
struct LatentConfig {
  int64_t q_rank = 0;  ///< width of the compressed queries; 0 = they come straight from the hidden state
  int kv_rank = 0;     ///< width of that vector but for what turns; 0 = the family has no such attention
  int plain = 0, turning = 0, value = 0;  ///< of a head: dimensions of q and k that do not turn, that do, and of v
  bool gated = false;  ///< each head's output is multiplied by a sigmoid
  bool wide_gate = false;  ///< each number of it is
  float norm_eps = 1e-6f;  ///< of the norms on compressed vectors, which few classes take from the configuration
  float q_scale = 1, kv_scale = 1;  ///< multiplied into what is compressed, after its norm
  explicit operator bool() const { return kv_rank > 0; }
};

/// Gemma 3n and 4: each layer has an embedding of the token of its own.
struct LayerInputConfig {
  int64_t width = 0, vocab = 0;  ///< 0 = the model has none; of ids from `vocab` on it is that of id 0
};

/// Gemma 3n: alternating updates (arXiv:2301.13310) and a low-rank path beside attention.
struct StreamsConfig {
  int count = 0, active = 0;  ///< residual streams; 0 = one, as everywhere else
  int64_t low_rank = 0;
  bool scaled = true;         ///< whether what the layer's embedding comes to is scaled first
};

/// An indexer: small queries and keys of its own, whose products say which keys a token's queries see (DeepSeek V3.2, arXiv:2512.02556).
struct IndexConfig {
  int heads = 0, dim = 0;  ///< heads 0 = the family has none
  int64_t top = 0;         ///< how many keys, or blocks of keys, are chosen
  int block = 1, local = 0;///< keys of a block; blocks up to the query's own that are among the chosen in any case
  int rope_index = 0;      ///< which of ModelConfig::ropes turns its heads; -1 = they do not turn
  float norm_eps = 1e-6f;  ///< of the norm on keys
  int pool = 1;            ///< tokens to a key, of which `top` are chosen; their tokens are seen, and the last ones that make no whole key yet
  bool pool_gated = false; ///< a key is a gated mean of normed keys; else the norm of their mean, turned by the first one's position
  bool summed = false;     ///< heads choose together and have no weights
  int64_t blocks = 0;      ///< above 0: layers that choose after `blocks_of` do so among the keys of so many blocks that it finds (DeepSeek V4.1)
  int blocks_of = -1, block_keys = 0;
  explicit operator bool() const { return heads > 0; }
};

/// Several residual streams (hyper-connections): see ops::Streams.
struct HyperConfig {
  int streams = 0, iterations = 0;   ///< streams 0 = one residual, as nearly everywhere; iterations of the mixing matrix' normalisation
  float eps = 0, magnitude = 2, added_eps = 0;
  int64_t low_rank = 0;              ///< above 0: Qwen4-Exp's, which come with the layers' norms
  bool mean = false;                 ///< their mean is what comes out in the end
  bool late = false;                 ///< a block reads the streams by the weights that the one before it left (DeepSeek V4.1)
  explicit operator bool() const { return streams > 0; }
};

/// Embeddings of n-grams that some layers add to their streams (Qwen4-Exp): see ops::NgramArgs.
struct NgramConfig {
  int size = 0, heads = 0;           ///< the longest n-gram, 0 = the family has none; heads of each length
  int64_t width = 0;                 ///< of all heads' embeddings together
  int64_t vocabulary = 0, multiple = 1;  ///< each head's is a prime from here on; the table has a multiple of so many rows
  int64_t seed = 0;
  int32_t separator = 0;
  int conv_width = 0;
  int parts = 1;                     ///< tensors that the table is cut into
  int all_heads() const { return (size - 1) * heads; }
  explicit operator bool() const { return size > 0; }
};

/// DeepSeek V4: one vector a token is key and value of all heads, and keys further back are compressed.
struct CompressedConfig {
  int64_t q_rank = 0, out_rank = 0;  ///< q_rank 0 = another family
  int groups = 1;                    ///< of heads, each with an output matrix [out_rank, its heads]
  int overlap = 0;                   ///< the ratio of compressed keys whose windows overlap
  explicit operator bool() const { return q_rank > 0; }
};

/// Sizes of the layers with a recurrent state.
struct StateConfig {
  int conv_width = 0;
  bool conv_bias = false, proj_bias = false;
  int key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;  ///< gated delta rule
  int heads = 0, head_dim = 0, states = 0, groups = 1, dt_rank = 0;///< state spaces; Mamba 1 has one head
  bool normed_steps = false;                                       ///< Mamba 1: what steps, B and C are made of is normed (Jamba)
  float dt_low = 0, dt_high = 0;                                   ///< of a step
  bool gated_norm = true, norm_before_gate = false;                ///< Mamba 2: whether its result is normed, and whether before silu(z) multiplies it
  float norm_eps = 0;                                              ///< of the norm on a mixer's result
  float beta_scale = 1;                                            ///< gated delta rule
  bool tiled_heads = false;                                        ///< gated delta rule: see ops::DeltaArgs
  bool sigmoid_gate = false;                                       ///< gated delta rule: sigmoid(z) gates its result instead of silu(z)
  float decay_floor = 0;                                           ///< delta rule by channel: see ops::ChannelDeltaArgs
  float z_scale = 1, x_scale = 1, b_scale = 1, c_scale = 1, dt_scale = 1;  ///< Mamba 2: what its projection's parts are multiplied by
  int64_t inner() const { return int64_t{heads} * head_dim; }
};

/// What blocks' results and what they are added to are multiplied by, where a family does not do with residual_scale.
struct BlockScales {
  float attention = 1, mixer = 1, gate = 1, feed_forward = 1;            ///< results; `gate` that of the feed-forward block before its activation
  float keep_attention = 1, keep_mixer = 1, keep_feed_forward = 1;       ///< what they are added to (MiniMax-Text-01)
};

struct ModelConfig {
  std::string arch;          ///< row of the architecture list: "llama", "qwen2", "gemma3" …
  int64_t layers = 0, hidden = 0, ffn = 0, vocab = 0, context_length = 0;
  int heads = 0, kv_heads = 0, head_dim = 0;  ///< of the cache: with latent attention one head, turning + kv_rank wide
  LatentConfig latent;
  IndexConfig index;
  CompressedConfig compressed;
  HyperConfig hyper;
  NgramConfig ngram;
  EngramConfig engram;
  float norm_eps = 0;
  ops::Activation act = ops::Activation::silu;
  float mlp_limit = 0, mlp_alpha = 0;         ///< of dense feed-forward blocks: see ops::Moe::swiglu_limit
  float attn_scale = 0;      ///< multiplied into q·k
  float attn_softcap = 0, final_softcap = 0;
  float embed_scale = 1, residual_scale = 1, logit_scale = 1;  ///< logits are multiplied by logit_scale
  BlockScales scales;
  bool gemma_norms = false;  ///< the family multiplies by 1 + w
  bool layer_norms = false;  ///< norms take the mean away; a bias that the file lacks is zero
  bool norms_last = false;   ///< heads of q and k are normed after they turn
  bool unit_heads = false;   ///< heads of q and k that turn are normed without weights (Llama 4)
  bool unit_values = false;  ///< heads of v are normed without weights (Gemma 3n and 4)
  float value_scale = 1;     ///< multiplied into v
  ops::PositionScale growth; ///< of queries, in layers that say so
  LayerInputConfig layer_input;
  StreamsConfig streams;
  bool tied_head = false;
  Presence qkv_bias = Presence::no, out_bias = Presence::no, mlp_bias = Presence::no, qk_norm = Presence::yes;
  int64_t draft_layers = 0;  ///< multi-token-prediction layers that the file says it holds
  int64_t draft_heads = 0;   ///< those of them that are loaded and kept, the first ones
  std::string no_drafts;     ///< why others are left out
  bool raw_drafts = false;   ///< see DraftNames::raw
  MoeConfig moe;
  StateConfig state;
  std::vector<ops::Rope> ropes;
  std::vector<LayerConfig> layer;  ///< [layers + draft_heads]: those of multi-token-prediction heads follow the model's own
  /// Layers that say nothing of their heads and widths get the model's.
  void settle();
  /// Does without multi-token-prediction heads; `why` goes to the log where the file has some.
  void drop_heads(std::string why) { layer.resize(size_t(layers)), draft_heads = 0, no_drafts = std::move(why); }
  std::vector<int32_t> eos_ids;    ///< every end-of-generation token that the files name, ascending
  int32_t bos_id = -1;
};

/// `overrides`: --hf-overrides, JSON values by key of config.json (for GGUF files too); "rope_scaling.factor" reaches into an object.
/// `served_len`: what the engine will serve at most (longrope and dynamic scaling choose by it); 0 = context_length.
Result<ModelConfig> parse_config(const weights::Checkpoint&, const std::map<std::string, std::string>& overrides = {}, int64_t served_len = 0);

}  // namespace isotope::models
