namespace isotope::kernels::cpu {
namespace {

constexpr GemmKernels kGemm = {};

}  // namespace
}  // namespace isotope::kernels::cpu
