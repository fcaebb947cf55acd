// A weight in the layout of kernels/cpu/packs.h.
#pragma once

#include <memory>
#include <span>

#include "isotope/options.h"
#include "kernels/cpu/packs.h"
#include "ops/cpu/weight_store.h"
#include "ops/ops.h"

namespace isotope::ops {

class PackedWeight final : public Weight {
 public:
  kernels::cpu::Pack pack{};
  size_t tile_bytes = 0;
  WeightStore::Piece memory;

  int64_t tiles() const { return (n + row().rows() - 1) / row().rows(); }
  const std::byte* tile(int64_t t) const { return memory.data + size_t(t) * tile_bytes; }
  const kernels::cpu::PackRow& row() const { return kernels::cpu::pack_row(pack); }
};

/// Packs [n, k], straight from the source rows into its final place. `rows`, if not empty, selects and orders source rows. Every format that
/// tensor::dequantize reads as a weight is taken, without loss: most as they are, FP8 without a scale as BF16, the IQ1-3 and TQ formats as int8 with a scale for each 16.
/// Precision::exact holds quantized formats as float32; F32, F16 and BF16 stay as they are, for their kernels compute in float32 anyway.
/// Errors name the tensor's shape and type; the caller adds the name of the tensor. Thread-safe. `store` null: memory of its own.
Result<std::unique_ptr<Weight>> pack_weight(const HostTensor&, std::span<const int32_t> rows, Precision, WeightStore* store = nullptr,
                                            const RowsDone& done = {});

/// Bytes that pack_weight() will take for a matrix [n, k], should it choose as it does for most.
size_t packed_bytes(tensor::DType, int64_t n, int64_t k, Precision);

}  // namespace isotope::ops
