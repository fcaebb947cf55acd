// Attention over paged KV.
#pragma once

namespace isotope::kernels::cpu {

struct AttentionKernels {};

}  // namespace isotope::kernels::cpu
