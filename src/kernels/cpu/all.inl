// Every kernel body, compiled once for each instruction set (cmake/isotope.cmake, isotope_isa, writes the file that includes this one and defines
// ISO_ISA and ISO_ISA_NAME). The table below is the only symbol with external linkage.
#if defined(ISO_AMX)
#include "kernels/cpu/amx.inl"
#else
#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

#include "kernels/cpu/attention.inl"
#include "kernels/cpu/channel_delta.inl"
#include "kernels/cpu/elementwise.inl"
#include "kernels/cpu/gemm.inl"
#include "kernels/cpu/limits.inl"
#include "kernels/cpu/probe.inl"
#include "kernels/cpu/recurrent.inl"
#include "kernels/cpu/sparse.inl"

#define ISO_TABLE__(isa) table_##isa
#define ISO_TABLE_(isa) ISO_TABLE__(isa)

namespace isotope::kernels::cpu {

extern const KernelTable ISO_TABLE_(ISO_ISA);
constinit const KernelTable ISO_TABLE_(ISO_ISA) = {ISO_ISA_NAME, kGemm, kAttention, kElementwise, probe, kLimits, kRecurrent, kChannelDelta, kSparse};

}  // namespace isotope::kernels::cpu
#endif
