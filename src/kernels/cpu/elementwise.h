// Norms, rotary embedding, activations, sums.
#pragma once

namespace isotope::kernels::cpu {

struct ElementwiseKernels {};

}  // namespace isotope::kernels::cpu
