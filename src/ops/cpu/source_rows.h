// A RowSource on the CPU: carried out row by row, straight to the form of the integer kernels.
#pragma once

#include "kernels/cpu/table.h"
#include "ops/source.h"

namespace isotope::ops {

class SourceRows {
 public:
  SourceRows(const kernels::cpu::KernelTable& kernels, const RowSource& source) : k_(kernels), s_(source), panels_(kernels.gemm.panels(source.x.rows)) {}

  /// Adds, norms and quantizes rows [r0, r1) into the panels (gemm.h) of all rows at `out`. Each row once.
  void quantize(int64_t r0, int64_t r1, std::byte* out) const noexcept;

 private:
  void add(int64_t r) const noexcept;
  void quantize_row(int64_t r, kernels::cpu::PanelRow to) const noexcept;
  void quantize_panel(kernels::cpu::Panel p, std::byte* panel) const noexcept;

  const kernels::cpu::KernelTable& k_;
  const RowSource& s_;
  kernels::cpu::Panels panels_;
};

/// One row normed; out may be x.
void norm_row(const kernels::cpu::KernelTable&, const Norm&, float* out, const float* x, int64_t n) noexcept;

}  // namespace isotope::ops
