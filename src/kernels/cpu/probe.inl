// Each operation of simd.h on sixteen lanes, for the tests.
namespace isotope::kernels::cpu {
namespace {

void probe(Probe what, const float* pa, const float* pb, const float* pc, float* out) noexcept {
  const f32x16 a = load(pa), b = load(pb), c = load(pc);
  const int n = int(pb[0]) & 15;  // for the *_n forms
  uint16_t half[16] = {};
  f32x16 r = a;
  switch (what) {
    case Probe::add: r = a + b; break;
    case Probe::sub: r = a - b; break;
    case Probe::mul: r = a * b; break;
    case Probe::div: r = a / b; break;
    case Probe::fma: r = fma(a, b, c); break;
    case Probe::max: r = max(a, b); break;
    case Probe::min: r = min(a, b); break;
    case Probe::sqrt: r = sqrt(a); break;
    case Probe::round_even: r = round_even(a); break;
    case Probe::floor: r = floor(a); break;
    case Probe::neg: r = -a; break;
    case Probe::abs: r = abs(a); break;
    case Probe::exp: r = exp(a); break;
    case Probe::to_i32: r = to_f32(to_i32(a)); break;
    case Probe::f16: store_f16(half, a); r = load_f16(half); break;
    case Probe::bf16: store_bf16(half, a); r = load_bf16(half); break;
    case Probe::less: r = select(lt(a, b) | ~le(b, c), set1(1.0f), zero_f32()); break;
    case Probe::hsum: r = set1(hsum(a)); break;
    case Probe::hmax: r = set1(hmax(a)); break;
    case Probe::load_n: r = load_n(pa, n); break;
    case Probe::load_f16_n: store_f16(half, a); r = load_f16_n(half, n); break;
    case Probe::load_bf16_n: store_bf16(half, a); r = load_bf16_n(half, n); break;
    case Probe::store_n: store(out, c); store_n(out, a, n); return;
    case Probe::store_f16_n: store_f16_n(half, a, n); r = load_f16(half); break;
    case Probe::store_bf16_n: store_bf16_n(half, a, n); r = load_bf16(half); break;
    case Probe::count_: break;
  }
  store(out, r);
}

}  // namespace
}  // namespace isotope::kernels::cpu
