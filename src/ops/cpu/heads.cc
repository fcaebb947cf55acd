// One matrix a head, all heads in one parallel region.
#include <cstring>

#include "base/check.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/linear.h"
#include "ops/cpu/share.h"

namespace isotope::ops {

Tensor CpuOps::linear_heads(const HeadsArgs& a) {
  const int64_t T = a.x.rows, H = int64_t(a.ws.size());
  ISO_CHECK(H > 0 && a.lead.cols % H == 0 && (!a.lead || a.lead.rows == T));
  const int64_t k = a.ws[0].w->k, n = a.ws[0].w->n, m = a.lead.cols / H;
  ISO_CHECK(a.first >= 0 && a.step >= 0 && a.first + (H - 1) * a.step + k <= a.x.cols);
  const Tensor out = empty(T, H * (m + n));
  const auto jobs = arena_->take<GroupedJob>(size_t(H));
  const kernels::cpu::Panels panels = k_.gemm.panels(T);
  for (int64_t h = 0; h < H; ++h) {
    const Linear& w = a.ws[size_t(h)];
    ISO_CHECK(w.w->k == k && w.w->n == n);
    GroupedJob& j = *new (&jobs[size_t(h)]) GroupedJob;
    j.w = w.w.get(), j.bias = w.bias, j.out = out.columns(h * (m + n) + m, n);
    j.x = a.x.columns(a.first + h * a.step, k);
    if (integer(*w.w)) j.quantized = arena_->take<std::byte>(linear_scratch_bytes(T, k)).data();
  }
  const size_t row_bytes = kernels::cpu::quantized_bytes(1, k);
  ops::for_rows(team_, H, T * (k + m), [&](int64_t h0, int64_t h1) {
    for (int64_t h = h0; h < h1; ++h) {
      const GroupedJob& j = jobs[size_t(h)];
      for (int64_t p = 0; j.quantized && p < panels.count(); ++p)
        k_.gemm.quantize_panel(j.x.row(panels[p].first), j.x.stride, panels[p].rows, k, j.quantized + size_t(panels[p].first) * row_bytes);
      for (int64_t r = 0; m > 0 && r < T; ++r) std::memcpy(out.row(r) + h * (m + n), a.lead.row(r) + h * m, size_t(m) * sizeof(float));
    }
  });
  grouped_linear(team_, k_, jobs, tuning_);
  return out;
}

}  // namespace isotope::ops
