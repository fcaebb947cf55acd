// Functions of sixteen lanes beyond exp. The same bits on every ISA. Included by all.inl only.
#pragma once

#include "kernels/cpu/simd.h"

namespace isotope::kernels::cpu {
namespace {

template <int N>
inline f32x16 polynomial(f32x16 x, const float (&c)[N]) {
  f32x16 p = set1(c[0]);
  for (int i = 1; i < N; ++i) p = fma(p, x, set1(c[i]));
  return p;
}

/// Within 2 ulp or so. Coefficients: S. Moshier, Cephes, tanhf.c.
inline f32x16 tanh(f32x16 x) {
  constexpr float kSmall[] = {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f, -3.33332819422e-1f};
  const f32x16 a = abs(x), z = x * x;
  const f32x16 near_zero = fma(polynomial(z, kSmall) * z, x, x);
  const f32x16 far = set1(1.0f) - set1(2.0f) / (exp(a + a) + set1(1.0f));
  const f32x16 signed_far = bits_to_f32(f32_to_bits(far) | (f32_to_bits(x) & set1(int32_t(0x80000000u))));
  return select(lt(a, set1(0.625f)), near_zero, signed_far);
}

/// Coefficients: S. Moshier, Cephes, ndtrf.c (erff, erfcf).
inline f32x16 erf(f32x16 x) {
  constexpr float kNear[] = {7.853861353153693e-5f,  -8.010193625184903e-4f, 5.188327685732524e-3f, -2.685381193529856e-2f,
                             1.128358514861418e-1f, -3.761262582423300e-1f, 1.128379165726710e+0f};
  constexpr float kMiddle[] = {2.326819970068386e-2f, -1.387039388740657e-1f, 3.687424674597105e-1f, -5.824733027278666e-1f, 6.210004621745983e-1f,
                               -4.944515323274145e-1f, 3.404879937665872e-1f, -2.741127028184656e-1f, 5.638259427386472e-1f};
  constexpr float kFar[] = {-1.047766399936249e+1f, 1.297719955372516e+1f, -7.495518717768503e+0f, 2.921019019210786e+0f,
                            -1.015265279202700e+0f, 4.218463358204948e-1f, -2.820767439740514e-1f, 5.641895067754075e-1f};
  const f32x16 a = abs(x), one = set1(1.0f);
  const f32x16 near = x * polynomial(x * x, kNear);
  const f32x16 q = one / max(a, one), y = q * q;
  const f32x16 tail = exp(-(a * a)) * q * select(lt(a, set1(2.0f)), polynomial(y, kMiddle), polynomial(y, kFar));
  const f32x16 far = one - tail;
  return select(le(a, one), near, bits_to_f32(f32_to_bits(far) | (f32_to_bits(x) & set1(int32_t(0x80000000u)))));
}

}  // namespace
}  // namespace isotope::kernels::cpu
