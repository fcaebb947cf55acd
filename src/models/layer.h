// What the transformers of this folder are made of. A tensor that a family lacks is empty; order of computation is code, presence is data.
#pragma once

#include <vector>

#include "models/draft.h"
#include "models/mixers.h"
#include "models/model.h"
#include "models/ngram.h"
#include "models/sparse.h"
#include "ops/ops.h"

namespace isotope::models {

/// Multi-head latent attention in its absorbed form: what turns comes first everywhere, and the queries of a head meet the tokens' vectors themselves.
struct LatentWeights {
  ops::Linear q_a;                 ///< [q_rank, D], or empty
  ops::Linear q;                   ///< [H * plain + H * turning, q_rank or D]: all heads' plain dimensions, then all that turn
  ops::Linear kv;                  ///< [turning + kv_rank, D]
  std::vector<float> q_norm, kv_norm;  ///< [q_rank], [kv_rank]
  std::vector<ops::Linear> k_up;   ///< of each head [kv_rank, plain]: takes a query to where keys are
  std::vector<ops::Linear> v_up;   ///< of each head [value, kv_rank]
  ops::Linear gate;                ///< [H * value, D]: its sigmoid multiplies the heads' outputs; or empty
  explicit operator bool() const { return bool(kv); }
};

/// Weights of one layer. Norm weights are as they multiply: Gemma's 1 + w is already added.
struct Layer {
  std::vector<float> attn_norm;        ///< [D] before attention
  ops::Linear q, k, v, o;              ///< [H*d, D], [K*d, D], [K*d, D], [D, H*d]
  ops::Linear q_gate;                  ///< [H*d, D] or [H, D]: its sigmoid multiplies attention's output; or empty
  std::unique_ptr<DeltaNet> delta;     ///< one of these instead of attention, where the layer's configuration says so
  std::unique_ptr<Mamba2> mamba2;
  std::unique_ptr<Mamba1> mamba1;
  std::unique_ptr<GatedConv> conv;
  std::unique_ptr<ChannelDelta> channel_delta;
  std::unique_ptr<Lightning> lightning;
  ops::Linear mixer_o;                 ///< [D, …]: `o` of the mixer that stands beside attention; or empty
  std::vector<float> q_norm, k_norm;   ///< [d] each head by itself, or [H*d] and [K*d] over the full width (OLMo 2)
  std::vector<float> sinks;            ///< [H] logits that take part in each head's softmax and add nothing; or empty
  LatentWeights latent;                ///< instead of q, k and v, where there is one
  std::unique_ptr<Indexer> indexer;    ///< chooses the keys that queries see; or empty
  std::unique_ptr<CompressedWeights> compressed;  ///< DeepSeek V4's attention; or empty
  std::unique_ptr<LayerStreams> streams;  ///< where the residual is several streams; or empty
  std::unique_ptr<NgramWeights> ngrams;///< embeddings of n-grams, added to the streams; or empty
  std::unique_ptr<EngramWeights> engram;          ///< what rows of an n-gram table are turned into; or empty
  std::vector<float> attn_post_norm;   ///< [D] on attention's output
  std::vector<float> ffn_norm;         ///< [D] before the feed-forward block
  ops::Linear gate, up, down;          ///< [F, D], [F, D], [D, F]
  ops::Moe moe;                        ///< instead of the three, where there is one
  std::vector<float> ffn_post_norm;    ///< [D] on the feed-forward block's output
  std::vector<float> attn_norm_bias, ffn_norm_bias;  ///< [D] of layer norms

  // Gemma 3n and 4: the layer's own embedding of the token, [P]
  ops::Linear input_gate, input_up;    ///< [P, D], [D, P]
  std::vector<float> input_norm;       ///< [D] on what comes of it
  std::vector<float> scalar;           ///< [1] multiplied into the layer's result, or empty (Gemma 4)
  // Gemma 4: experts beside the dense block
  std::vector<float> dense_post_norm, moe_norm, moe_post_norm;  ///< [D]; on the dense block's output, before the experts, on their output
  // Gemma 3n: N residual streams, and a path of low rank beside attention
  ops::Linear low_down, low_up;        ///< [r, D], [D, r]
  std::vector<float> low_norm;         ///< [D]
  ops::Linear router, predict, correct;///< [N, D], [N*N, N], [N, N]
  std::vector<float> router_norm, stream_scale;  ///< [D], [D]
};

/// Weights outside the layers. With a tied head there is one packed matrix, `head`, and `embed` is empty.
struct Globals {
  ops::Linear embed;        ///< [V, D]
  std::vector<float> norm;  ///< [D]
  ops::Linear head;         ///< [V, D]
  std::vector<float> norm_bias;  ///< [D] of a layer norm
  // Gemma 3n and 4: embeddings of L layers side by side, P each
  ops::Linear layer_embed;  ///< [V', L*P]
  ops::Linear layer_project;///< [L*P, D]
  std::vector<float> layer_norm;  ///< [P]
  std::vector<ops::Linear> stream_in, stream_out;  ///< [D, D] of each residual stream but the active one (Gemma 3n)
  std::unique_ptr<ops::Streams> streams;  ///< brings residual streams together before the final norm; or empty
  const ops::Weight& table() const { return embed ? *embed.w : *head.w; }
};

class EngramTables;

/// Common ground of the decoder families: weights, KV groups, and the steps that do not depend on their order.
class Transformer : public Model {
 public:
  std::vector<Layer> layers;      ///< [depth() + draft_heads()]
  Globals globals;
  std::vector<DraftHead> drafts;  ///< [draft_heads()]
  std::shared_ptr<EngramTables> engram;  ///< n-gram tables and how rows are found; or empty

  /// Derives KV groups: one full group if any layer attends fully, one sliding group for each window length, and last the group of the states. A model
  /// without attention has a full group without layers, by which prefixes are found.
  void set_config(ModelConfig);

 protected:
  struct Qkv {
    ops::Tensor q, k, v;
  };
  ops::Norm norm(const std::vector<float>& weight, std::span<const float> bias = {}) const { return {weight, config_.norm_eps, false, bias}; }
  ops::Norm attn_norm(size_t l) const { return norm(layers[l].attn_norm, layers[l].attn_norm_bias); }
  ops::Norm ffn_norm(size_t l) const { return norm(layers[l].ffn_norm, layers[l].ffn_norm_bias); }
  size_t depth() const { return size_t(config_.layers); }  ///< layers of the model itself
  /// What follows layer l: the next one's first norm, or the model's last.
  ops::Norm norm_after(size_t l) const { return l + 1 == depth() ? norm(globals.norm, globals.norm_bias) : attn_norm(l + 1); }
  /// The norm of each head by itself, for attend(); a norm as wide as all heads (OLMoE) is carried out here and now.
  std::optional<ops::Norm> head_norm(ops::Ops&, ops::Tensor x, const std::vector<float>& weight, int head_dim) const;
  /// What the blocks of layer l read is due before a tap sees x, and a tap sees what comes of it.
  static void show(ops::Ops&, const HiddenTap*, size_t l, ops::RowSource& h);
  /// Those of them that the layer has; its values may be its keys.
  Qkv project(ops::Ops&, const ops::RowSource& h, size_t layer) const;
  /// Norms each head of q and k by itself with the norms of `heads` (null: none), rotates them where the layer does, stores k and v, attends: [T, H*d].
  ops::Tensor attend(ops::Ops&, Qkv, size_t layer, const Layer* heads) const;
  /// From what the layer's blocks read to what `o` reads, by whatever attention or recurrence the layer has.
  ops::Tensor mix(ops::Ops&, const ops::RowSource& h, size_t layer) const;
  ops::Tensor mix_latent(ops::Ops&, const ops::RowSource& h, size_t layer) const;
  /// Projections of `h`, of which some choose the keys that attention then sees.
  ops::Tensor mix_indexed(ops::Ops&, const ops::RowSource& h, size_t layer) const;
  /// What an indexer reads of a step. Keys are empty where they are compressed already; gates say how several tokens make a key.
  struct IndexTensors {
    ops::Tensor q, k, weights, gates;
  };
  /// Norms and rotates the indexer's queries and keys, makes one key of several where the family does, and chooses by them.
  void choose_keys(ops::Ops&, IndexTensors, size_t layer) const;
  ops::Tensor mix_gated(ops::Ops&, const ops::RowSource& h, size_t layer) const;
  ops::Tensor mix_delta(ops::Ops&, const ops::RowSource& h, size_t layer) const;
  ops::Tensor mix_mamba2(ops::Ops&, const ops::RowSource& h, size_t layer) const;
  ops::Tensor mix_mamba1(ops::Ops&, const ops::RowSource& h, size_t layer) const;
  ops::Tensor mix_conv(ops::Ops&, const ops::RowSource& h, size_t layer) const;
  ops::Tensor mix_channel_delta(ops::Ops&, const ops::RowSource& h, size_t layer) const;
  ops::Tensor mix_lightning(ops::Ops&, const ops::RowSource& h, size_t layer) const;
  ops::Tensor feed_forward(ops::Ops&, const ops::RowSource& h, const Layer&) const;
  /// down(act(gate) * up) of normed rows, or down(act(up)) without a gate; whatever experts the layer has.
  ops::Tensor dense_block(ops::Ops&, const ops::RowSource& h, const Layer&) const;
  /// The same with act(gate) at most `limit` and up within ±limit.
  ops::Tensor clamped_block(ops::Ops&, const ops::RowSource& h, const Layer&, float limit) const;
  /// The layers' own embeddings of the batch's tokens, side by side, mixed with what the projected embeddings x say: [T, L*P]. Gemma 3n and 4.
  ops::Tensor layer_inputs(ops::Ops&, const ops::Batch&, ops::Tensor x) const;
  /// What the layer's own embedding comes to, given x [T, D]: [T, D], not normed yet.
  ops::Tensor take_input(ops::Ops&, ops::Tensor x, ops::Tensor inputs, size_t layer) const;
  /// [R, D] after the final norm -> logits [R, V].
  ops::Tensor logits(ops::Ops& o, const ops::RowSource& h) const { return logits(o, h, globals.head); }
  ops::Tensor logits(ops::Ops&, const ops::RowSource& h, const ops::Linear& head) const;
  /// Only rows that need logits matter after the last attention; with a tap all rows do. Narrows `x` and `y` when it may; false = nothing is left to do.
  static bool narrow(ops::Ops&, const ops::Batch&, const HiddenTap*, ops::Tensor& x, ops::Tensor& y);
  static bool narrow(ops::Ops&, const ops::Batch&, const HiddenTap*, ops::RowSource& h);  ///< where nothing after this reads other rows
  /// Shows the tap the final norm's output and picks the rows that need logits, if narrow() did not.
  static ops::RowSource finish(ops::Ops&, const ops::Batch&, const HiddenTap*, ops::RowSource h, size_t layers);

  /// What the layer of a head reads: [T, D], or [T, N D] where the residual is N streams.
  ops::Tensor draft_input(ops::Ops&, const DraftStep&) const;
  ops::Norm draft_norm(const DraftHead& d) const { return d.norm.empty() ? norm(globals.norm, globals.norm_bias) : norm(d.norm); }
  const ops::Linear& draft_matrix(const DraftHead& d) const { return d.head ? d.head : globals.head; }
  /// What the last layer, the model's or a head's, comes to: the logits of the rows of h that `pick` wants (null: of all), and what heads read, of all.
  ops::Tensor logits_and_state(ops::Ops&, ops::RowSource h, const ops::Batch* pick, const ops::Linear& head, ops::Tensor& hidden) const;
  /// What the n-grams of the layer add to its streams x: [T, N * D].
  ops::Tensor take_ngrams(ops::Ops&, ops::Tensor x, size_t layer) const;

  /// KV layers of indexers and of compressed keys; `windows` are those of the groups.
  void add_sparse_layers(const std::vector<int64_t>& windows);

  std::vector<int> kv_at_, state_at_;  ///< by layer: its keys and values, its state among kv_layers(); -1 = none
  std::vector<int> index_at_;          ///< by layer: its indexer's keys; -1 = none
  std::vector<int> entries_at_, inputs_at_;  ///< by layer: its compressed keys, and what the next ones are made of; -1 = none
};

}  // namespace isotope::models
