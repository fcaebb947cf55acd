namespace isotope::kernels::cpu {
namespace {

constexpr AttentionKernels kAttention = {};

}  // namespace
}  // namespace isotope::kernels::cpu
