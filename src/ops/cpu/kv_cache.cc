#include "ops/cpu/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace isotope::ops {

using kernels::cpu::KvFormat;
using kernels::cpu::kTile;

static_assert(int(KvType::f32) == int(KvFormat::f32) && int(KvType::f16) == int(KvFormat::f16) && int(KvType::bf16) == int(KvFormat::bf16) &&
              int(KvType::int8) == int(KvFormat::int8) && int(KvType::fp8) == int(KvFormat::fp8));

namespace {
constexpr size_t kLine = 64;
constexpr size_t round_up(size_t n) { return (n + kLine - 1) / kLine * kLine; }
}  // namespace

Result<void> check_kv(std::span<const KvLayerSpec> layers, size_t groups, int block_size) {
  if (block_size < kTile || block_size > 4096 || (block_size & (block_size - 1)) != 0) {
    return fail(Code::invalid_argument, fmt::format("KV block size {} is not a power of two from 16 to 4096", block_size), "--block-size", "use 16");
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    const KvLayerSpec& l = layers[i];
    const auto source = fmt::format("KV layer {}", i);
    if (l.group < 0 || size_t(l.group) >= groups) {
      return fail(Code::internal, fmt::format("KV group {} does not exist", l.group), source, fmt::format("the model declares {} groups", groups));
    }
    if (l.state_floats > 0 && l.state_floats <= int64_t{1} << 32) continue;
    if (l.form == KvForm::floats) {
      if (l.head_dim < 1 || l.head_dim > 1 << 20)
        return fail(Code::unsupported, fmt::format("{} numbers a token", l.head_dim), source, "from 1 to 1048576 are supported");
      continue;
    }
    if (l.form == KvForm::rows && (l.kv_heads != 1 || l.every < 1 || (l.every & (l.every - 1)) != 0)) {
      return fail(Code::unsupported, fmt::format("{} heads of an entry for {} tokens", l.kv_heads, l.every), source,
                  "one head and a power of two are supported");
    }
    if (l.kv_heads < 1 || l.kv_heads > 65536) {
      return fail(Code::unsupported, fmt::format("{} kv heads", l.kv_heads), source, "from 1 to 65536 are supported");
    }
    if (l.head_dim < 8 || l.head_dim % 8 != 0 || l.head_dim > kernels::cpu::kMaxHeadDim) {
      return fail(Code::unsupported, fmt::format("head size {}", l.head_dim), source,
                  fmt::format("multiples of 8 from 8 to {} are supported", kernels::cpu::kMaxHeadDim));
    }
    if (l.value_dim < 0 || l.value_dim > l.head_dim || l.value_dim % 2) {
      return fail(Code::unsupported, fmt::format("values that are the last {} of {} numbers of a key", l.value_dim, l.head_dim), source,
                  "an even number of them is supported");
    }
  }
  return {};
}

CpuKvCache::Sizes CpuKvCache::sizes(const KvLayerSpec& spec, int block_size, KvType type) {
  Sizes s;
  if (spec.state_floats) {
    s.block = round_up(size_t(spec.state_floats) * sizeof(float));
    return s;
  }
  if (spec.form == KvForm::floats) {
    s.block = round_up(size_t(spec.head_dim) * sizeof(float) * size_t(block_size));
    return s;
  }
  const size_t element = size_t(kernels::cpu::kKvBytes[int(type)]), scale = kernels::cpu::kKvScaled[int(type)] ? sizeof(float) : 0;
  if (spec.form == KvForm::rows) {
    const size_t entries = size_t(std::max(1, block_size / spec.every));
    s.row = size_t(kernels::cpu::padded_dim(spec.head_dim)) * element;
    s.k = entries * s.row;
    s.block = s.head = round_up(s.k + entries * scale);
    return s;
  }
  const bool values = spec.form == KvForm::keys_values && spec.value_dim == 0;
  s.k_tile = size_t(spec.head_dim) * kTile * element;
  s.v_tile = values ? size_t(kernels::cpu::padded_dim(spec.head_dim)) * kTile * element : 0;
  s.k = s.k_tile * size_t(block_size / kTile);
  s.v = s.v_tile * size_t(block_size / kTile);
  s.scales = (values ? 2 : 1) * size_t(block_size) * scale;
  s.head = round_up(s.k + s.v + s.scales);
  s.block = s.head * size_t(spec.kv_heads);
  return s;
}

Result<std::unique_ptr<CpuKvCache>> CpuKvCache::make(std::span<const KvLayerSpec> layers, std::span<const int64_t> blocks_per_group, int block_size,
                                                     KvType type) {
  ISO_CHECK_OK(check_kv(layers, blocks_per_group.size(), block_size));
  auto kv = std::make_unique<CpuKvCache>();
  kv->block_size = block_size;
  kv->type = type;
  kv->blocks.assign(blocks_per_group.begin(), blocks_per_group.end());
  for (const KvLayerSpec& spec : layers) {
    const int64_t n = blocks_per_group[size_t(spec.group)];
    const Sizes size = sizes(spec, block_size, type);
    size_t bytes = 0;
    // Slots are int32: block id * block size + offset.
    if (n < 0 || n > INT32_MAX / block_size || __builtin_mul_overflow(size.block, size_t(n), &bytes) || bytes > size_t{1} << 46) {
      return fail(Code::invalid_argument, fmt::format("{} KV blocks of {} bytes", n, size.block), fmt::format("KV group {}", spec.group),
                  "ask for fewer blocks");
    }
    ISO_TRY(Pages memory, Pages::reserve(bytes, "the KV cache"));
    kv->layers_.push_back({spec, size, std::move(memory)});
    kv->bytes += bytes;
  }
  return kv;
}

void CpuKvCache::copy_block(int group, int32_t from, int32_t to) {
  for (int l = 0; l < layers(); ++l) {
    if (layers_[size_t(l)].spec.group != group) continue;
    const auto src = block_bytes(l, from), dst = block_bytes(l, to);
    std::memmove(dst.data(), src.data(), src.size());
  }
}

void CpuKvCache::clear_block(int group, int32_t block) {
  for (int l = 0; l < layers(); ++l) {
    if (layers_[size_t(l)].spec.group != group) continue;
    const auto bytes = block_bytes(l, block);
    std::memset(bytes.data(), 0, bytes.size());
  }
}

std::span<std::byte> CpuKvCache::block_bytes(int layer, int32_t block) {
  ISO_CHECK(layer >= 0 && layer < layers());
  Layer& l = layers_[size_t(layer)];
  ISO_CHECK(block >= 0 && block < blocks[size_t(l.spec.group)]);
  return {l.memory.data() + size_t(block) * l.size.block, l.size.block};
}

}  // namespace isotope::ops
