#include "ops/cpu/source_rows.h"

#include <algorithm>

namespace isotope::ops {

namespace {
const float* weight_of(const Norm& n) { return n.weight.empty() ? nullptr : n.weight.data(); }
}  // namespace

void norm_row(const kernels::cpu::KernelTable& k, const Norm& n, float* out, const float* x, int64_t size) noexcept {
  (n.bf16 ? k.elementwise.rms_norm_bf16 : k.elementwise.rms_norm)(out, x, weight_of(n), size, n.eps);
}

void SourceRows::add(int64_t r) const noexcept {
  if (!s_.add) return;
  const int64_t cols = s_.x.cols;
  if (s_.add_norm) norm_row(k_, *s_.add_norm, s_.add.row(r), s_.add.row(r), cols);
  k_.elementwise.add(s_.x.row(r), s_.add.row(r), cols, s_.add_scale);
}

void SourceRows::quantize_row(int64_t r, kernels::cpu::PanelRow to) const noexcept {
  const kernels::cpu::GemmKernels& g = k_.gemm;
  if (!s_.norm) return g.quantize_row(s_.x.row(r), s_.x.cols, to);
  (s_.norm->bf16 ? g.norm_bf16_quantize_row : g.norm_quantize_row)(s_.x.row(r), weight_of(*s_.norm), s_.norm->eps, s_.x.cols, to);
}

void SourceRows::quantize_panel(kernels::cpu::Panel p, std::byte* panel) const noexcept {
  const kernels::cpu::GemmKernels& g = k_.gemm;
  if (!s_.norm) return g.quantize_panel(s_.x.row(p.first), s_.x.stride, p.rows, s_.x.cols, panel);
  (s_.norm->bf16 ? g.norm_bf16_quantize_panel : g.norm_quantize_panel)({s_.x.row(p.first), s_.x.stride, weight_of(*s_.norm), s_.norm->eps}, p.rows,
                                                                       s_.x.cols, panel);
}

void SourceRows::quantize(int64_t r0, int64_t r1, std::byte* out) const noexcept {
  const size_t row_bytes = kernels::cpu::quantized_bytes(1, s_.x.cols);
  for (int64_t r = r0; r < r1;) {
    const kernels::cpu::Panel p = panels_.of(r);
    const int64_t end = std::min(r1, p.first + p.rows);
    std::byte* const panel = out + size_t(p.first) * row_bytes;
    const bool whole = end - r == p.rows;
    for (int64_t i = r; i < end; ++i) add(i);
    if (whole) quantize_panel(p, panel);
    else
      for (int64_t i = r; i < end; ++i) quantize_row(i, {panel, p.rows, int(i - p.first)});
    r = end;
  }
}

}  // namespace isotope::ops
