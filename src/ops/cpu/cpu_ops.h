// The CPU implementation of Ops: checks shapes, cuts work over the team, calls kernels.
#pragma once

#include <memory>

#include "base/arena.h"
#include "base/team.h"
#include "kernels/cpu/table.h"
#include "ops/cpu/kv_cache.h"
#include "ops/cpu/rope_tables.h"
#include "ops/cpu/weight_store.h"
#include "ops/ops.h"

namespace isotope::ops {

struct LinearJob;
class CpuSparse;

/// Layers with a matrix for a state: what gated_delta() and Mamba 2's scan() have in common. Groups of heads have keys and queries in common.
struct StateStep {
  Tensor q, k, x;            ///< [T, groups * depth] twice, [T, heads * width]; k and q are Mamba's B and C
  Tensor alpha, step;        ///< [T, heads]: decay; beta or dt
  std::span<const float> skip = {};  ///< [heads] or empty: times x, added to the result
  int64_t heads = 0, groups = 0;
  bool tiled = false;        ///< head h belongs to group h % groups, not h / (heads / groups)
  int64_t depth = 0, width = 0;
  StatePlace at;
  int64_t matrix = 0, floats = 0;    ///< matrix_floats() and state_floats() of the op
  void (*kernel)(const kernels::cpu::StateChunksJob&) noexcept = nullptr;
  int64_t panels() const { return heads * ((width + 15) / 16); }
  int64_t group_of(int64_t head) const { return tiled ? head % groups : head / (heads / groups); }
  int64_t first_head(int64_t group) const { return tiled ? group : group * (heads / groups); }
  int64_t next_head() const { return tiled ? groups : 1; }  ///< of the same group
};

class CpuOps final : public Ops {
 public:
  CpuOps(const kernels::cpu::KernelTable& kernels, int threads, const CpuOpsOptions& options);
  ~CpuOps() override;

  Result<std::unique_ptr<Weight>> pack(const HostTensor&, std::span<const int32_t> rows, const RowsDone& done) override;
  Result<std::unique_ptr<Weight>> pack_spilled(const HostTensor&, std::span<const int32_t> rows, const RowsDone& done) override;
  size_t packed_bytes(tensor::DType t, int64_t n, int64_t k) const override;

  void begin(const Batch&, KvCache*) override;
  Tensor empty(int64_t rows, int64_t cols) override;
  void next_layer() override;

  Tensor embed(const Weight& table, float scale) override;
  Tensor linear(Tensor x, const Linear&) override;
  void linear_n(Tensor x, std::span<const Linear* const> ws, std::span<Tensor> outs) override;
  Tensor linear_heads(const HeadsArgs&) override;
  Tensor rms_norm(Tensor x, std::span<const float> weight, float eps) override;
  void head_norm(Tensor x, int head_dim, std::span<const float> weight, float eps) override;
  void rope(Tensor x, int head_dim, const Rope&) override;
  Tensor attention(const AttentionArgs&) override;
  Tensor act_mul(Tensor gate, Tensor up, Activation) override;
  void add(Tensor x, Tensor y, float scale) override;
  void scale(Tensor x, float s) override;
  void softcap(Tensor x, float cap) override;
  Tensor gather(Tensor x, std::span<const int32_t> rows) override;

  void add_rows(Tensor x, const Weight& table, std::span<const int32_t> rows) override;
  void layer_norm(Tensor x, const LayerNorm&) override;
  void add_layer_norm(Tensor x, Tensor y, const LayerNorm&) override;
  void activate(Tensor x, Activation) override;
  Tensor self_attention(const SelfAttentionArgs&) override;

  Tensor add_rms_norm(Tensor x, Tensor y, std::span<const float> weight, float eps) override;
  Tensor linear_act(Tensor x, const Linear& gate, const Linear& up, Activation) override;
  Tensor moe(Tensor x, const Moe& m) override { return moe_routed_by(x, x, m); }
  Tensor moe_routed_by(Tensor x, Tensor r, const Moe&) override;

  Tensor short_conv(Tensor x, const ShortConv&, StatePlace) override;
  Tensor gated_delta(const DeltaArgs&) override;
  Tensor scan(const ScanArgs&) override;
  void sigmoid_mul(Tensor x, Tensor gate) override;
  void mul(Tensor x, Tensor y) override;
  void scale_columns(Tensor x, std::span<const float> w) override;
  Tensor channel_delta(const ChannelDeltaArgs&) override;

  Tensor copy(Tensor x) override;
  void scale_by_position(Tensor x, const PositionScale&) override;
  void clamp(Tensor x, float low, float high) override;
  void keep_above(Tensor x, float s) override;
  void add_by_row(Tensor x, Tensor y, Tensor c) override;
  void match_size(Tensor x, Tensor like, float floor) override;
  Tensor resize_heads(Tensor x, int from, int to) override;

  SparseOps* sparse() override;

  bool try_project(const RowSource&, std::span<const Linear* const> ws, std::span<Tensor> outs) override;
  std::optional<RowSource> try_gated(const RowSource&, const GatedArgs&) override;
  bool try_store_kv(const AttentionArgs&) override;

  Result<std::unique_ptr<KvCache>> make_kv(std::span<const KvLayerSpec>, std::span<const int64_t> blocks_per_group, int block_size, KvType) override;
  size_t kv_block_bytes(std::span<const KvLayerSpec>, int group, int block_size, KvType) const override;

  void adopt_caller() override { team_.bind_caller(); }
  int workers() const override { return team_.size(); }
  void parallel(int64_t n, const std::function<void(int64_t i, int worker)>& f) override;

  std::string describe() const override;

 private:
  friend class CpuSparse;
  /// See share.h.
  template <class F>
  void for_rows(int64_t rows, int64_t cost, F&& f);
  void act_mul_into(Tensor out, Tensor gate, Tensor up, Activation);
  /// A feed-forward block; `clamp` above 0: see Moe::clamp.
  Tensor feed_forward(Tensor x, const FeedForward&, Activation, float clamp);
  /// The mixture's shared block with its limit.
  Tensor limited(Tensor x, const Moe&);
  /// The tokens of all rows of the batch, or of those that need logits.
  std::span<const int32_t> tokens_of(int64_t rows);
  /// The source with the process' way of rounding norms.
  RowSource with_policy(RowSource) const;
  void run_linear(const RowSource&, std::span<const LinearJob>);
  void check_attention(const AttentionArgs&) const;
  void store_kv(const AttentionArgs&);
  /// Stores k and v as they are, unless the args say that they are stored.
  void store_shaped(const AttentionArgs&);
  float* state_in(StatePlace, int64_t floats, int32_t slot) const;
  /// The place in the slot of the batch's sequence s.
  float* state_of(StatePlace, int64_t floats, int64_t s) const;
  /// Calls f(sequence, piece) for all sequences' pieces in [0, pieces); on this thread alone when a piece's tokens cost little.
  template <class F>
  void for_pieces(int64_t pieces, int64_t cost, F&& f);
  struct Span;
  Tensor walk_chunks(const StateStep&);
  void make_state_rows(const StateStep&, kernels::cpu::StateRow* table, int64_t s, const Span&, int64_t group, bool first);
  void walk_panel(const StateStep&, const kernels::cpu::StateRow* table, int64_t s, const Span&, int64_t panel, Tensor out);
  void keep_open_rows(const StateStep&);
  struct ChannelSpan;
  void walk_channels(const ChannelDeltaArgs&, int64_t s, int64_t h, ChannelSpan, Tensor out);
  void walk_channel_panel(const ChannelDeltaArgs&, int64_t s, int64_t panel, const Span&, const ChannelSpan&, Tensor out);

  const kernels::cpu::KernelTable& k_;
  Precision precision_;
  CpuTuning tuning_;
  SparseTuning sparse_tuning_;
  Fusions fusions_;
  bool bf16_norms_;
  WeightStore store_, spilled_;
  base::Team team_;
  base::Arena step_;               ///< until the next begin()
  base::Arena layers_[2];          ///< of the even and the odd layers
  base::Arena* arena_ = &step_;    ///< where tensors are made now
  int64_t layer_ = 0;
  RopeTables ropes_;
  Batch batch_;
  CpuKvCache* kv_ = nullptr;
  std::unique_ptr<CpuSparse> sparse_;
};

}  // namespace isotope::ops
