// The table of gemm.h.
#include "kernels/cpu/gemm_quantize.inl"
#include "kernels/cpu/gemm_unpack.inl"
#include "kernels/cpu/gemm_int.inl"
#include "kernels/cpu/gemm_float.inl"

namespace isotope::kernels::cpu {
namespace {

template <Pack P>
void gemm(const GemmArgs& a) noexcept {
  if constexpr (pack_row(P).integer()) gemm_int<P>(a);
  else gemm_float<P>(a);
}

template <Pack P>
void decode_row(const std::byte* tile, int row, int64_t k, float* out) noexcept {
  if constexpr (pack_row(P).integer()) decode_row_int<P>(tile, row, k, out);
  else if constexpr (P == Pack::f8g128) decode_row_f8(tile, row, k, out);
  else decode_row_float<P>(tile, row, k, out);
}

static_assert(kPanelRows <= kMaxPanelRows);

template <int... P>
constexpr GemmKernels make_gemm(Indices<P...>) {
  return {{gemm<Pack(P)>...}, {decode_row<Pack(P)>...}, quantize_panel, quantize_row, norm_quantize_row<false>, norm_quantize_row<true>,
          norm_quantize_panel<false>, norm_quantize_panel<true>, kPanelRows, kSmallPanelRows};
}
constexpr GemmKernels kGemm = make_gemm(indices<int(Pack::count_)>());

}  // namespace
}  // namespace isotope::kernels::cpu
