#include "ops/cpu/source_rows.h"

namespace isotope::ops {

namespace {
const float* weight_of(const Norm& n) { return n.weight.empty() ? nullptr : n.weight.data(); }
}  // namespace

void norm_row(const kernels::cpu::KernelTable& k, const Norm& n, float* out, const float* x, int64_t size) noexcept {
  (n.bf16 ? k.elementwise.rms_norm_bf16 : k.elementwise.rms_norm)(out, x, weight_of(n), size, n.eps);
}

void SourceRows::quantize(int64_t r0, int64_t r1, std::byte* out) const noexcept {
  const int64_t cols = s_.x.cols;
  const size_t row_bytes = kernels::cpu::quantized_bytes(1, cols);
  for (int64_t r = r0; r < r1; ++r) {
    if (s_.add) {
      if (s_.add_norm) norm_row(k_, *s_.add_norm, s_.add.row(r), s_.add.row(r), cols);
      k_.elementwise.add(s_.x.row(r), s_.add.row(r), cols, s_.add_scale);
    }
    const kernels::cpu::Panel p = panels_.of(r);
    const kernels::cpu::PanelRow to{out + size_t(p.first) * row_bytes, p.rows, int(r - p.first)};
    if (!s_.norm) k_.gemm.quantize_row(s_.x.row(r), cols, to);
    else (s_.norm->bf16 ? k_.gemm.norm_bf16_quantize_row : k_.gemm.norm_quantize_row)(s_.x.row(r), weight_of(*s_.norm), s_.norm->eps, cols, to);
  }
}

}  // namespace isotope::ops
