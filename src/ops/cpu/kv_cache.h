// Paged KV storage in host memory. A block of a layer holds, one kv head after the other: K [block/16][d][16 tokens], V [block][padded d] (bf16: in
// pairs, see KvTile), and for int8 and fp8 the scales of K and of V [block] each. V and its scales are missing where values are a part of the keys. A
// head's part starts on a cache line.
// A block of a layer with a recurrent state is that state of one sequence. A block of an indexer's keys has no V and no scales of it; one of KvForm::rows
// holds [block / every][padded d], at least one entry, then the scales; one of KvForm::floats [block][head_dim] float32.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/cpu/sparse.h"
#include "ops/cpu/pages.h"
#include "ops/ops.h"

namespace isotope::ops {

class CpuKvCache final : public KvCache {
 public:
  static Result<std::unique_ptr<CpuKvCache>> make(std::span<const KvLayerSpec> layers, std::span<const int64_t> blocks_per_group, int block_size, KvType);

  void copy_block(int group, int32_t from, int32_t to) override;
  void clear_block(int group, int32_t block) override;
  std::span<std::byte> block_bytes(int layer, int32_t block) override;

  const KvLayerSpec& spec(int layer) const { return layers_[size_t(layer)].spec; }
  kernels::cpu::KvFormat format() const { return kernels::cpu::KvFormat(type); }
  int layers() const { return int(layers_.size()); }

  /// Sixteen tokens, from token 16 * `sub` of the block on, of one head.
  kernels::cpu::KvTile tile(int layer, int32_t block, int head, int sub) const noexcept {
    const Layer& l = layers_[size_t(layer)];
    std::byte* p = l.memory.data() + size_t(block) * l.size.block + size_t(head) * l.size.head;
    kernels::cpu::KvTile t{.k = p + size_t(sub) * l.size.k_tile, .v = l.size.v ? p + l.size.k + size_t(sub) * l.size.v_tile : nullptr};
    if (l.size.scales) {
      t.k_scale = reinterpret_cast<float*>(p + l.size.k + l.size.v) + 16 * sub;
      t.v_scale = l.size.v ? t.k_scale + block_size : t.k_scale;
    }
    return t;
  }

  /// The entry, of a layer of rows, that ends with token `offset` of the block.
  kernels::cpu::KvRow row(int layer, int32_t block, int offset) const noexcept {
    const Layer& l = layers_[size_t(layer)];
    const size_t entry = size_t(offset / l.spec.every);
    std::byte* p = l.memory.data() + size_t(block) * l.size.block;
    return {p + entry * l.size.row, kernels::cpu::kKvScaled[int(type)] ? reinterpret_cast<float*>(p + l.size.k) + entry : nullptr};
  }

  /// A token's numbers in a layer of floats.
  float* numbers(int layer, int32_t block, int offset) const noexcept {
    const Layer& l = layers_[size_t(layer)];
    return reinterpret_cast<float*>(l.memory.data() + size_t(block) * l.size.block) + size_t(offset) * size_t(l.spec.head_dim);
  }

  /// A sequence's state in a layer that has one.
  float* state(int layer, int32_t slot) const noexcept {
    const Layer& l = layers_[size_t(layer)];
    return reinterpret_cast<float*>(l.memory.data() + size_t(slot) * l.size.block);
  }

  /// Byte sizes of the parts of a block.
  struct Sizes {
    size_t k_tile = 0, v_tile = 0, row = 0, k = 0, v = 0, scales = 0, head = 0, block = 0;
  };
  /// REQUIRES: a valid spec and block size.
  static Sizes sizes(const KvLayerSpec&, int block_size, KvType);

 private:
  struct Layer {
    KvLayerSpec spec;
    Sizes size;
    Pages memory;
  };
  std::vector<Layer> layers_;
};

/// Checks what make() and kv_block_bytes() are asked for.
Result<void> check_kv(std::span<const KvLayerSpec> layers, size_t groups, int block_size);

}  // namespace isotope::ops
