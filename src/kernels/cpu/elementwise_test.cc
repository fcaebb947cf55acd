// Each kernel against a double-precision reference over odd sizes, and every instruction set against the scalar table bit for bit.
#include "kernels/cpu/elementwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/pick.h"

namespace isotope::kernels::cpu {
namespace {

using Row = std::vector<float>;
constexpr int kSizes[] = {1, 2, 15, 16, 17, 31, 48, 63, 64, 65, 127, 257, 576, 1000, 4097};

Row normal(int n, unsigned seed, float spread = 1.0f) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> d(0, spread);
  Row r(static_cast<size_t>(n));
  for (float& x : r) x = d(rng);
  return r;
}

std::vector<const KernelTable*> runnable() {
  std::vector<const KernelTable*> out;
  for (const auto& s : isa_candidates()) {
    if (s.runnable) out.push_back(s.table);
  }
  return out;
}

struct Case {
  std::string name;
  /// The kernel on row x with helper rows y, z [n]; the result.
  std::function<Row(const ElementwiseKernels&, const Row& x, const Row& y, const Row& z)> kernel;
  std::function<double(const Row& x, const Row& y, const Row& z, size_t i)> reference;
  double tolerance;  ///< relative to 1 + |reference|
};

Row apply_act(const ElementwiseKernels& k, Act a, const Row& x, const Row& y) {
  Row out(x.size());
  k.act_mul[int(a)](out.data(), x.data(), y.data(), int64_t(x.size()));
  return out;
}

Case act(const char* name, Act a, double (*f)(double)) {
  return {name, [a](auto& k, auto& x, auto& y, auto&) { return apply_act(k, a, x, y); },
          [f](auto& x, auto& y, auto&, size_t i) { return f(double(x[i])) * double(y[i]); }, 1e-6};
}

std::vector<Case> cases() {
  return {
      act("silu", Act::silu, [](double x) { return x / (1 + std::exp(-x)); }),
      act("gelu_tanh", Act::gelu_tanh, [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }),
      act("gelu", Act::gelu, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }),
      act("relu", Act::relu, [](double x) { return std::max(x, 0.0); }),
      act("relu2", Act::relu2, [](double x) { return std::max(x, 0.0) * std::max(x, 0.0); }),
      {"rms_norm", [](auto& k, auto& x, auto& y, auto&) {
         Row out(x.size());
         k.rms_norm(out.data(), x.data(), y.data(), int64_t(x.size()), 1e-5f);
         return out;
       },
       [](auto& x, auto& y, auto&, size_t i) {
         double s = 0;
         for (float v : x) s += double(v) * double(v);
         return double(y[i]) * double(x[i]) / std::sqrt(s / double(x.size()) + 1e-5);
       },
       1e-6},
      {"rms_norm_in_place_without_weight", [](auto& k, auto& x, auto&, auto&) {
         Row out = x;
         k.rms_norm(out.data(), out.data(), nullptr, int64_t(x.size()), 1e-6f);
         return out;
       },
       [](auto& x, auto&, auto&, size_t i) {
         double s = 0;
         for (float v : x) s += double(v) * double(v);
         return double(x[i]) / std::sqrt(s / double(x.size()) + 1e-6);
       },
       1e-6},
      {"layer_norm", [](auto& k, auto& x, auto& y, auto& z) {
         Row out = x;
         k.layer_norm(out.data(), y.data(), z.data(), int64_t(x.size()), 1e-5f);
         return out;
       },
       [](auto& x, auto& y, auto& z, size_t i) {
         double mean = 0, squares = 0;
         for (float v : x) mean += double(v) / double(x.size());
         for (float v : x) squares += (double(v) - mean) * (double(v) - mean) / double(x.size());
         return double(y[i]) * (double(x[i]) - mean) / std::sqrt(squares + 1e-5) + double(z[i]);
       },
       2e-6},
      {"activate_gelu", [](auto& k, auto& x, auto&, auto&) {
         Row out = x;
         k.activate[int(Act::gelu)](out.data(), int64_t(x.size()));
         return out;
       },
       [](auto& x, auto&, auto&, size_t i) { return 0.5 * double(x[i]) * (1 + std::erf(double(x[i]) / std::sqrt(2.0))); }, 1e-6},
      {"add", [](auto& k, auto& x, auto& y, auto&) {
         Row out = x;
         k.add(out.data(), y.data(), int64_t(x.size()), 0.22f);
         return out;
       },
       [](auto& x, auto& y, auto&, size_t i) { return double(x[i]) + double(0.22f) * double(y[i]); }, 1e-6},
      {"scale", [](auto& k, auto& x, auto&, auto&) {
         Row out = x;
         k.scale(out.data(), int64_t(x.size()), 3.7f);
         return out;
       },
       [](auto& x, auto&, auto&, size_t i) { return double(x[i]) * double(3.7f); }, 1e-6},
      {"softcap", [](auto& k, auto& x, auto&, auto&) {
         Row out = x;
         k.softcap(out.data(), int64_t(x.size()), 3.0f);
         return out;
       },
       [](auto& x, auto&, auto&, size_t i) { return 3 * std::tanh(double(x[i]) / 3); }, 1e-6},
      {"clamped_swiglu", [](auto& k, auto& x, auto& y, auto&) {
         Row out(x.size());
         k.clamped_swiglu(out.data(), x.data(), y.data(), int64_t(x.size()), 1.702f, 2.0f);
         return out;
       },
       [](auto& x, auto& y, auto&, size_t i) {
         const double g = std::min(2.0, double(x[i])), u = std::clamp(double(y[i]), -2.0, 2.0);
         return g / (1 + std::exp(-double(1.702f) * g)) * (u + 1);
       },
       1e-6},
      {"exp", [](auto& k, auto& x, auto&, auto&) {
         Row out = x;
         k.exp(out.data(), int64_t(x.size()), 12.5f);
         return out;
       },
       [](auto& x, auto&, auto&, size_t i) { return std::exp(double(x[i] - 12.5f)); }, 1e-6},
      {"sigmoid", [](auto& k, auto& x, auto&, auto&) {
         Row out = x;
         k.sigmoid(out.data(), int64_t(x.size()));
         return out;
       },
       [](auto& x, auto&, auto&, size_t i) { return 1 / (1 + std::exp(-double(x[i]))); }, 1e-6},
  };
}

TEST(Elementwise, MatchesTheReference) {
  for (const KernelTable* t : runnable()) {
    for (const Case& c : cases()) {
      for (int n : kSizes) {
        const Row x = normal(n, 1, 3), y = normal(n, 2), z = normal(n, 3), out = c.kernel(t->elementwise, x, y, z);
        for (size_t i = 0; i < out.size(); ++i) {
          const double r = c.reference(x, y, z, i);
          ASSERT_NEAR(double(out[i]), r, c.tolerance * (1 + std::abs(r))) << t->isa << " " << c.name << " n=" << n << " i=" << i << " x=" << x[i];
        }
      }
    }
  }
}

TEST(Elementwise, InstructionSetsAgreeBitForBit) {
  for (const KernelTable* t : runnable()) {
    for (const Case& c : cases()) {
      for (int n : kSizes) {
        const Row x = normal(n, 4, 20), y = normal(n, 5), z = normal(n, 6);
        const Row expected = c.kernel(table_scalar.elementwise, x, y, z), out = c.kernel(t->elementwise, x, y, z);
        ASSERT_EQ(0, std::memcmp(out.data(), expected.data(), out.size() * sizeof(float))) << t->isa << " " << c.name << " n=" << n;
      }
    }
  }
}

TEST(Elementwise, ActivationsOverTheWholeRange) {
  Row x;
  for (double e = -30; e < 8; e += 0.01) x.push_back(float(std::exp(e))), x.push_back(-x.back());
  const Row one(x.size(), 1.0f);
  for (const Case& c : cases()) {
    if (c.name.find("rms") == 0 || c.name == "add" || c.name == "exp") continue;  // exp leaves float32's range
    const Row out = c.kernel(table_scalar.elementwise, x, one, one);
    for (size_t i = 0; i < x.size(); ++i) {
      const double r = c.reference(x, one, one, i);
      ASSERT_NEAR(double(out[i]), r, 4e-7 * std::abs(r) + 3e-7 * std::min(1.0, std::abs(double(x[i])))) << c.name << " x=" << x[i];
    }
  }
}

TEST(Elementwise, InfinitiesStayDefined) {
  const Row x = {INFINITY, -INFINITY, 3e38f, -3e38f}, one(4, 1.0f);
  for (Act a : {Act::silu, Act::relu}) {
    const Row out = apply_act(table_scalar.elementwise, a, x, one);
    EXPECT_EQ(out[0], INFINITY);
    EXPECT_EQ(out[2], 3e38f);
    EXPECT_EQ(out[3], 0.0f);
  }
}

TEST(Elementwise, RopeRotatesHalvesAndPairs) {
  for (const KernelTable* t : runnable()) {
    for (int rot : {2, 8, 30, 32, 64, 96}) {
      const int d = 96, heads = 3;
      const Row x = normal(heads * d, 7);
      Row cos, sin;
      for (int i = 0; i < rot / 2; ++i) cos.push_back(std::cos(0.3f * float(i + 1))), sin.push_back(std::sin(0.3f * float(i + 1)));
      for (bool pairs : {false, true}) {
        Row out = x;
        (pairs ? t->elementwise.rope_interleaved : t->elementwise.rope)(out.data(), cos.data(), sin.data(), heads, d, rot);
        Row expected = x;
        for (int h = 0; h < heads; ++h) {
          for (int i = 0; i < rot / 2; ++i) {
            const size_t a = size_t(h * d + (pairs ? 2 * i : i)), b = size_t(h * d + (pairs ? 2 * i + 1 : i + rot / 2));
            const float ca = x[a] * cos[size_t(i)], sb = x[b] * sin[size_t(i)], cb = x[b] * cos[size_t(i)], sa = x[a] * sin[size_t(i)];
            expected[a] = ca - sb;
            expected[b] = cb + sa;
          }
        }
        ASSERT_EQ(out, expected) << t->isa << " rot=" << rot << " pairs=" << pairs;
      }
    }
  }
}

}  // namespace
}  // namespace isotope::kernels::cpu
