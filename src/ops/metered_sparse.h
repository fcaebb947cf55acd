// SparseOps that time each call; part of metered.cc.
#pragma once

#include <functional>
#include <utility>

#include "ops/sparse.h"

namespace isotope::ops {

class MeteredSparse final : public SparseOps {
 public:
  /// One finished call: which op, the bytes and operations that it took at least, and what it is called.
  struct Call {
    int op = 0;
    const char* name = "";
    int64_t bytes = 0, operations = 0;
  };
  /// Runs the work and counts it.
  using Timed = std::function<void(const Call&, const std::function<void()>& work)>;

  MeteredSparse(SparseOps& inside, Timed timed) : in_(inside), timed_(std::move(timed)) {}

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
  void prefetch_rows(const RowsArgs& a) override { in_.prefetch_rows(a); }
  Tensor take_rows(const RowsArgs&) override;
  void add_memory(Tensor streams, const MemoryArgs&) override;

 private:
  template <class F>
  auto timed(const Call& call, F f) {
    decltype(f()) out{};
    timed_(call, [&] { out = f(); });
    return out;
  }

  SparseOps& in_;
  Timed timed_;
};

}  // namespace isotope::ops
