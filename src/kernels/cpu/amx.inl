// What the table avx512_amx has of its own: the integer kernels. The rest is avx512_bf16's (pick.cc joins them).
#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

#include "kernels/cpu/elementwise.inl"
#include "kernels/cpu/gemm.inl"
#include "kernels/cpu/gemm_amx.inl"

namespace isotope::kernels::cpu {
namespace {

static_assert(kPanelRows == kAmxRows, "panels are cut for the vector kernels of the same table");

template <Pack P>
constexpr GemmKernels::Gemm amx_kernel() {
  if constexpr (pack_row(P).integer()) return gemm_amx<AmxTiles, P>;
  else return nullptr;
}
template <int... P>
constexpr AmxGemms amx_kernels(Indices<P...>) { return {{amx_kernel<Pack(P)>()...}}; }

}  // namespace

extern const AmxGemms gemms_avx512_amx;
constinit const AmxGemms gemms_avx512_amx = amx_kernels(indices<int(Pack::count_)>());

}  // namespace isotope::kernels::cpu
