// Linear layers on the CPU: cuts the work over the team, calls the kernels. Results for a row depend on that row alone, never on the number of
// rows, the cut, or the team (docs/architecture.md, contract 1).
#pragma once

#include <span>

#include "base/team.h"
#include "kernels/cpu/table.h"
#include "ops/cpu/packed_weight.h"

namespace isotope::ops {

/// One projection: out = x · Wᵀ + bias. `out` is [x.rows, w.n]. With `up` it is act(x · Wᵀ + bias) * (x · Upᵀ + up_bias).
struct LinearJob {
  const Weight* w = nullptr;  ///< made by pack_weight
  Tensor out;
  std::span<const float> bias = {};  ///< [n] or empty
  const Weight* up = nullptr;        ///< null, or a weight that can_gate() accepts
  std::span<const float> up_bias = {};
  kernels::cpu::Act act{};
  /// Null, or where the result goes instead, quantized: panels (gemm.h) of out.rows rows of out.cols columns. `out` then has no data. Needs `up`.
  std::byte* quantized_out = nullptr;
};

/// A projection with an input of its own, for experts: `x` for floating packs, `quantized` (panels of out.rows rows) for integer ones.
struct GroupedJob : LinearJob {
  Tensor x = {};
  std::byte* quantized = nullptr;
};

/// Whether the kernels compute both projections and the activation in one pass: integer packs, the same for both, of the same shape.
bool can_gate(const Weight& gate, const Weight& up);

/// Whether a weight is multiplied with quantized activations.
bool integer(const Weight&);

/// Bytes of scratch that linear() needs for an input [rows, k]; any alignment of 64 will do.
inline size_t linear_scratch_bytes(int64_t rows, int64_t k) { return (kernels::cpu::quantized_bytes(rows, k) + 63) / 64 * 64; }

/// Several projections of one input; activations are normed (if the source says so) and quantized once, into `scratch`. The same bits as one job after another.
/// REQUIRES: every w->k == x.cols; scratch holds linear_scratch_bytes(x.rows, x.cols) unless the source is quantized already; a source that is a recipe or
/// quantized has integer packs alone for readers. Rows of x and out are best an odd number of cache lines apart:
/// at a power of two, sixteen of them compete for the same sets of the first-level cache.
void linear(base::Team&, const kernels::cpu::KernelTable&, const RowSource&, std::span<std::byte> scratch, std::span<const LinearJob> jobs,
            const CpuTuning& = {});
inline void linear(base::Team& team, const kernels::cpu::KernelTable& t, Tensor x, std::span<std::byte> scratch, std::span<const LinearJob> jobs,
                   const CpuTuning& tuning = {}) {
  linear(team, t, RowSource{.x = x}, scratch, jobs, tuning);
}

/// out = x · Wᵀ on this thread, for floating packs: what a pass over some rows needs of a small matrix. The same bits as linear().
void linear_rows(const kernels::cpu::KernelTable&, Tensor x, const Weight&, Tensor out);

/// All jobs in one parallel region, cut by cost over the team, so that unequal numbers of rows keep every member busy. Each weight is read once for all
/// its rows (as long as their quantized activations fit CpuTuning::pass_bytes). The same bits as linear() for each job.
void grouped_linear(base::Team&, const kernels::cpu::KernelTable&, std::span<const GroupedJob> jobs, const CpuTuning& = {});

/// Row r of a packed weight as float32 [k], what tensor::dequantize gives: a tied head serves as embedding, in one copy.
void embed_row(const kernels::cpu::KernelTable&, const Weight&, int64_t r, float* out);

}  // namespace isotope::ops
