// Weights times activations.
#pragma once

namespace isotope::kernels::cpu {

struct GemmKernels {};

}  // namespace isotope::kernels::cpu
