// The CPU implementation of SparseOps: a part of CpuOps that only some families need.
#pragma once

#include "ops/cpu/chosen.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/indexer.h"
#include "ops/cpu/sparse_context.h"
#include "ops/sparse.h"

namespace isotope::ops {

class CpuSparse final : public SparseOps {
 public:
  explicit CpuSparse(CpuOps& ops) : o_(ops) {}
  /// A new step: nothing is chosen yet.
  void begin() { chosen_ = {}, found_.found = {}; }

  void choose_keys(const IndexArgs&) override;
  Tensor attend_chosen(AttentionArgs) override;
  void compress(const CompressArgs&) override;
  Tensor attend_compressed(const CompressedArgs&) override;
  Tensor clamped_act_mul(Tensor gate, Tensor up, Activation, float limit, float alpha) override;

  Tensor spread(Tensor x, int streams) override;
  StreamStep enter(Tensor streams, const Streams&) override;
  void leave(Tensor streams, const StreamStep&, Tensor y) override;
  Tensor join(Tensor streams, const Streams&) override;
  Tensor embed_ngrams(const NgramArgs&) override;
  Tensor gate_streams(const StreamGateArgs&) override;
  StreamStep enter_late(Tensor streams, const Streams&, Tensor& read) override;
  Tensor blend(Tensor streams, Tensor weights) override;
  Tensor pool(const CompressArgs&) override;
  void store_entries(const EntryArgs&) override;
  void prefetch_rows(const RowsArgs&) override;
  Tensor take_rows(const RowsArgs&) override;
  void add_memory(Tensor streams, const MemoryArgs&) override;

 private:
  SparseContext context() const;
  /// The layer's spec, if it has that form and its group takes part in the batch.
  const KvLayerSpec& checked(int layer, KvForm) const;
  /// Arguments that fit the step, with the norm as it is to be computed.
  CompressArgs checked(const CompressArgs&) const;
  /// A row for each token into a layer of rows.
  void store_rows(Tensor x, int layer) const;
  /// Whether sequences that decode together are done one by one.
  bool apart_by_sequence(Tensor streams) const { return o_.sparse_tuning_.streams_by_sequence && streams.rows > 1; }
  template <class F>
  void each_sequence(Tensor streams, F f) const;
  /// enter(); `read` [T, N] or empty: the weights to read by, instead of those that the streams give now, which become `next`.
  StreamStep enter_rows(Tensor streams, const Streams&, Tensor read, Tensor& next) const;
  void leave_rows(Tensor streams, const StreamStep&, Tensor y) const;
  Tensor join_rows(Tensor streams, const Streams&) const;
  template <class F>
  void mix_then(Tensor streams, const Streams&, Tensor numbers, F finish) const;
  /// What Streams says of those with `down`.
  Tensor normed(Tensor streams, const Streams&) const;
  Tensor blend_normed(Tensor normed, const Streams&) const;

  CpuOps& o_;
  base::Arena memory_;  ///< of the choice
  Chosen chosen_;
  BlockMemory found_;
};

}  // namespace isotope::ops
