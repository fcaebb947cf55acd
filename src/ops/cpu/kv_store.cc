#include "ops/cpu/kv_store.h"

#include "ops/cpu/source_rows.h"

namespace isotope::ops {

void KvStore::shape(Tensor x, int heads, const std::optional<Norm>& norm, int64_t t) const noexcept {
  const int d = args.head_dim;
  float* const row = x.row(t);
  const auto turn = [&] {
    if (!args.rope) return;
    const auto rotate = args.rope->interleaved ? kernels.elementwise.rope_interleaved : kernels.elementwise.rope;
    const int64_t half = args.rope->rot / 2;
    rotate(row + args.rope->first, angles.cos + t * half, angles.sin + t * half, heads, d, args.rope->rot);
  };
  if (args.norms_last) turn();
  if (norm)
    for (int h = 0; h < heads; ++h) norm_row(kernels, *norm, row + h * d, row + h * d, d);
  if (!args.norms_last) turn();
}

void KvStore::run(int64_t t0, int64_t t1) const noexcept {
  const int d = args.head_dim, size = kv.block_size;
  const Batch::Group& group = batch.groups[size_t(kv.spec(args.layer).group)];
  const auto write = kernels.attention.write[int(kv.format())];
  const auto fetch = kernels.attention.fetch[int(kv.format())];
  const auto tile = [&](int32_t slot, int h) { return kv.tile(args.layer, slot / size, h, slot % size / kernels::cpu::kTile); };
  for (int64_t t = t0; t < t1; ++t) {
    const int32_t slot = group.slots[size_t(t)], place = slot % size % kernels::cpu::kTile;
    // A sequence's next token finds its tile where the one before left it; the first one's comes while q is turned.
    if (t == t0 || place == 0 || slot != group.slots[size_t(t) - 1] + 1)
      for (int h = 0; h < args.kv_heads; ++h) fetch(tile(slot, h), place, d);
    shape(args.q, args.heads, q_norm, t);
    shape(args.k, args.kv_heads, k_norm, t);
    for (int h = 0; h < args.kv_heads; ++h) {
      write(tile(slot, h), place, args.k.row(t) + h * d, args.v ? args.v.row(t) + h * d : nullptr, d);
    }
  }
}

}  // namespace isotope::ops
