namespace isotope::kernels::cpu {
namespace {

constexpr ElementwiseKernels kElementwise = {};

}  // namespace
}  // namespace isotope::kernels::cpu
