#include "ops/cpu/sparse.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/cpu/clamped.h"
#include "ops/cpu/compress.h"
#include "ops/cpu/indexer.h"
#include "ops/cpu/listed_attention.h"
#include "ops/cpu/share.h"

namespace isotope::ops {

SparseContext CpuSparse::context() const { return {o_.team_, o_.k_, *o_.arena_, o_.batch_, *o_.kv_, o_.tuning_.attention_alone, o_.sparse_tuning_.score_bytes}; }

const KvLayerSpec& CpuSparse::checked(int layer, KvForm form) const {
  ISO_CHECK(o_.kv_ && layer >= 0 && layer < o_.kv_->layers());
  const KvLayerSpec& spec = o_.kv_->spec(layer);
  ISO_CHECK(spec.form == form && size_t(spec.group) < o_.batch_.groups.size());
  ISO_CHECK(int64_t(o_.batch_.groups[size_t(spec.group)].slots.size()) == o_.batch_.T());
  return spec;
}

void CpuSparse::choose_keys(const IndexArgs& a) {
  const int64_t T = o_.batch_.T();
  const KvLayerSpec& spec = checked(a.layer, a.k ? KvForm::keys : KvForm::rows);
  ISO_CHECK(a.heads > 0 && a.top > 0 && a.block > 0 && a.local >= 0 && spec.kv_heads == 1 && spec.head_dim == a.dim);
  ISO_CHECK(a.q.rows == T && a.q.cols == int64_t{a.heads} * a.dim && (!a.weights || (a.weights.rows == T && a.weights.cols == a.heads)));
  ISO_CHECK(!(a.blocks || a.within) || (a.weights && a.block == 1 && a.blocks >= 0 && (!a.blocks || a.block_keys > 0)));
  if (a.k) {
    ISO_CHECK(a.k.rows == T && a.k.cols == a.dim);
    const auto write = o_.k_.sparse.write_key[int(o_.kv_->format())];
    const auto& slots = o_.batch_.groups[size_t(spec.group)].slots;
    const int size = o_.kv_->block_size;
    for_rows(o_.team_, T, 4 * a.dim, [&](int64_t t0, int64_t t1) {
      for (int64_t t = t0; t < t1; ++t) {
        const int32_t slot = slots[size_t(t)], offset = slot % size;
        write(o_.kv_->tile(a.layer, slot / size, 0, offset / kernels::cpu::kTile), offset % kernels::cpu::kTile, a.k.row(t), a.dim);
      }
    });
  }
  chosen_ = ops::choose_keys(a, context(), memory_, found_);
}

Tensor CpuSparse::attend_chosen(AttentionArgs a) {
  ISO_CHECK(chosen_.made && (chosen_.lists == 1 || chosen_.lists == a.kv_heads) && a.window == 0);
  if (chosen_.all) return o_.attend(a);
  o_.check_attention(a);
  o_.shape(a);
  o_.store_shaped(a);
  const Tensor out = o_.empty(o_.batch_.T(), int64_t{a.heads} * (a.value_dim ? a.value_dim : a.head_dim));
  const ListedArgs listed{.q = a.q,
                          .heads = a.heads,
                          .kv_heads = a.kv_heads,
                          .dim = a.head_dim,
                          .value_dim = a.value_dim,
                          .scale = a.scale,
                          .softcap = a.softcap,
                          .sinks = a.sinks,
                          .layer = a.layer,
                          .chosen = &chosen_};
  listed_attention(listed, context(), out);
  return out;
}

CompressArgs CpuSparse::checked(const CompressArgs& a) const {
  const int64_t T = o_.batch_.T(), width = int64_t{a.series} * a.dim;
  const KvLayerSpec& kept = checked(a.kept, KvForm::floats);
  ISO_CHECK((a.series == 1 || a.series == 2) && a.ratio > 0);
  ISO_CHECK(a.offset >= 0 && a.offset + (a.gates ? 2 : 1) * width <= kept.head_dim && a.inputs.rows == T && a.inputs.cols == width);
  ISO_CHECK(!a.gates || (a.gates.rows == T && a.gates.cols == width && int64_t(a.bias.size()) == a.ratio * width));
  ISO_CHECK(!a.norm || int64_t(a.norm->weight.size()) == a.dim);
  CompressArgs args = a;
  if (args.norm) args.norm->bf16 = o_.bf16_norms_;
  return args;
}

void CpuSparse::compress(const CompressArgs& a) {
  const CompressArgs args = checked(a);
  const KvLayerSpec& entries = checked(a.entries, KvForm::rows);
  ISO_CHECK(entries.every == a.ratio && entries.head_dim == a.dim && (!a.rope || a.rope->first + a.rope->rot <= a.dim));
  ops::compress(args, context());
}

Tensor CpuSparse::pool(const CompressArgs& a) { return ops::pool(checked(a), context()); }

void CpuSparse::store_entries(const EntryArgs& a) {
  ISO_CHECK(checked(a.layer, KvForm::rows).head_dim == a.x.cols && a.rope && a.rope->first + a.rope->rot <= a.x.cols);
  ops::store_entries(a, context());
}

void CpuSparse::store_rows(Tensor x, int layer) const {
  const KvLayerSpec& spec = checked(layer, KvForm::rows);
  ISO_CHECK(spec.every == 1 && x.rows == o_.batch_.T() && x.cols == spec.head_dim);
  const auto write = o_.k_.sparse.write_row[int(o_.kv_->format())];
  const auto& slots = o_.batch_.groups[size_t(spec.group)].slots;
  for_rows(o_.team_, x.rows, 2 * x.cols, [&](int64_t t0, int64_t t1) {
    for (int64_t t = t0; t < t1; ++t)
      write(o_.kv_->row(layer, slots[size_t(t)] / o_.kv_->block_size, slots[size_t(t)] % o_.kv_->block_size), x.row(t), int(x.cols));
  });
}

Tensor CpuSparse::attend_compressed(const CompressedArgs& a) {
  ISO_CHECK(a.heads > 0 && a.window > 0 && a.q.rows == o_.batch_.T() && a.q.cols == int64_t{a.heads} * a.dim && a.kv.cols == a.dim);
  ISO_CHECK(a.sinks.empty() || int64_t(a.sinks.size()) == a.heads);
  if (a.entries >= 0) ISO_CHECK(checked(a.entries, KvForm::rows).head_dim == a.dim);
  ISO_CHECK(!a.chosen || (chosen_.made && chosen_.lists == 1 && a.entries >= 0));
  store_rows(a.kv, a.recent);
  const Tensor out = o_.empty(a.q.rows, a.q.cols);
  const ListedArgs listed{.q = a.q, .heads = a.heads, .dim = a.dim, .scale = a.scale, .sinks = a.sinks, .recent = a.recent, .window = a.window,
                          .layer = a.entries, .chosen = a.chosen && !chosen_.all ? &chosen_ : nullptr};
  listed_attention(listed, context(), out);
  return out;
}

Tensor CpuSparse::clamped_act_mul(Tensor gate, Tensor up, Activation act, float limit, float alpha) {
  ISO_CHECK(gate.rows == up.rows && gate.cols == up.cols && limit > 0);
  const Tensor out = o_.empty(gate.rows, gate.cols);
  constexpr int64_t kCost = 6;
  for_rows(o_.team_, out.rows, out.cols * kCost, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) clamped_row(o_.k_.elementwise, {act, limit, alpha}, out.row(r), gate.row(r), up.row(r), out.cols);
  });
  return out;
}

}  // namespace isotope::ops
