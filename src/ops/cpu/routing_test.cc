// The router's choice: ties, groups, biases, weights.
#include "ops/cpu/routing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/pick.h"

namespace isotope::ops {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

struct Chosen {
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

Chosen choose(const Routing& r, std::vector<float> logits, const std::vector<float>& bias = {}) {
  std::vector<float> scratch(2 * logits.size());
  Chosen c{std::vector<int32_t>(size_t(r.used)), std::vector<float>(size_t(r.used))};
  const auto table = kernels::cpu::pick_isa("");
  choose_experts((*table)->elementwise, r, logits, bias, scratch, c.experts.data(), c.weights.data());
  return c;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(Routing, SoftmaxOverAllThenTheBest) {
  const std::vector<float> logits = {1, 3, 2, 0};
  double sum = 0;
  for (float l : logits) sum += std::exp(double(l));
  const Chosen c = choose({.used = 2}, logits);
  EXPECT_THAT(c.experts, ElementsAre(1, 2));  // ascending by index
  EXPECT_THAT(c.weights, ElementsAre(FloatNear(float(std::exp(3.0) / sum), 1e-6f), FloatNear(float(std::exp(2.0) / sum), 1e-6f)));
  EXPECT_NEAR(choose({.used = 2, .renormalize = true, .scale = 2.5f}, logits).weights[0], 2.5 * sigmoid(1), 1e-6);
}

TEST(Routing, RootsOfSoftplusAreScoresToo) {
  const Chosen c = choose({.used = 2, .score = Routing::Score::sqrt_softplus, .renormalize = true, .scale = 1.5f}, {-40, 3, 100, 0.5f});
  const auto score = [](double x) { return std::sqrt(std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)))); };
  EXPECT_THAT(c.experts, ElementsAre(1, 2));
  EXPECT_NEAR(c.weights[0], 1.5 * score(3) / (score(3) + score(100)), 1e-6);
}

TEST(Routing, GivenExpertsAreOnlyWeighed) {
  const auto table = kernels::cpu::pick_isa("");
  std::vector<float> logits = {4, -1, 2, 0}, weights(2);
  const int32_t given[] = {1, 3};
  weigh_experts((*table)->elementwise, {.used = 2, .score = Routing::Score::sigmoid, .renormalize = true}, logits, given, weights.data());
  EXPECT_THAT(weights, ElementsAre(FloatNear(float(sigmoid(-1) / (sigmoid(-1) + sigmoid(0))), 1e-6f), FloatNear(float(sigmoid(0) / (sigmoid(-1) + sigmoid(0))), 1e-6f)));
}

TEST(Routing, ExactTiesGoToTheLowerIndex) {
  EXPECT_THAT(choose({.used = 3}, {0, 1, 1, 1, 1}).experts, ElementsAre(1, 2, 3));
  EXPECT_THAT(choose({.used = 2}, {5, 5, 5, 5}).experts, ElementsAre(0, 1));
  EXPECT_THAT(choose({.used = 2, .score = Routing::Score::sigmoid}, {-2, -2, 0, -2}).experts, ElementsAre(0, 2));
}

TEST(Routing, GapsOfOneUlpDecide) {
  const float a = 1.0f, b = std::nextafter(1.0f, 2.0f);
  EXPECT_THAT(choose({.used = 1, .score = Routing::Score::sigmoid}, {0.0f, 0.0f, 1e-6f}).experts, ElementsAre(2));
  EXPECT_THAT(choose({.used = 1}, {a, a, a}, {a, b, a}).experts, ElementsAre(1));  // two biases next to each other
}

TEST(Routing, LogitsTellApartWhatSaturatedScoresDoNot) {
  Routing r{.used = 1, .score = Routing::Score::sigmoid};
  EXPECT_THAT(choose(r, {30, 40, 35}).experts, ElementsAre(0));  // all three score 1
  r.by_logits = true;
  EXPECT_THAT(choose(r, {30, 40, 35}).experts, ElementsAre(1));
}

TEST(Routing, TheBiasChoosesAndDoesNotWeigh) {
  const Chosen c = choose({.used = 2, .score = Routing::Score::sigmoid}, {0, 1, 2, -1}, {0, 0, -5, 3});
  EXPECT_THAT(c.experts, ElementsAre(1, 3));
  EXPECT_THAT(c.weights, ElementsAre(FloatNear(float(sigmoid(1)), 1e-6f), FloatNear(float(sigmoid(-1)), 1e-6f)));
}

TEST(Routing, OnlyTheBestGroupsCanBeChosen) {
  const std::vector<float> logits = {9, 0, 0, 5, 5, 0, 0, 1};  // groups of two: best single 9, best pair {5 alone}, {5 alone}
  const Routing single{.used = 2, .score = Routing::Score::sigmoid, .groups = 4, .groups_used = 1, .group_best = 1};
  EXPECT_THAT(choose(single, logits).experts, ElementsAre(0, 1));
  const std::vector<float> pairs = {3, -9, 1, 1, 0, 0, -9, -9};  // sigmoid sums: 0.95, 1.46, 1.0, 0
  const Routing two{.used = 3, .score = Routing::Score::sigmoid, .groups = 4, .groups_used = 2, .group_best = 2};
  EXPECT_THAT(choose(two, pairs).experts, ElementsAre(2, 3, 4));
  EXPECT_THAT(choose(two, {1, 1, 1, 1, 1, 1, 1, 1}).experts, ElementsAre(0, 1, 2));  // equal groups: the lower ones
}

TEST(Routing, NotANumberChoosesDistinctExpertsAndGivesNoNumber) {
  const float nan = NAN;
  for (const Routing r : {Routing{.used = 4}, Routing{.used = 2, .groups = 2}, Routing{.used = 3, .score = Routing::Score::sigmoid, .renormalize = true}}) {
    const Chosen c = choose(r, {nan, nan, nan, nan});
    for (size_t i = 0; i < c.experts.size(); ++i) {
      EXPECT_EQ(c.experts[i], int32_t(i));
      EXPECT_TRUE(std::isnan(c.weights[i]));
    }
  }
  EXPECT_THAT(choose({.used = 2}, {-INFINITY, 0, -INFINITY, -INFINITY}).experts, ElementsAre(0, 1));
}

TEST(Routing, EveryInstructionSetChoosesAlike) {
  std::vector<float> logits(61);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = float((i * 37) % 61) / 7.0f - 4.0f;
  const Routing r{.used = 6, .renormalize = true};
  const Chosen want = choose(r, logits);
  for (const auto& isa : kernels::cpu::isa_candidates()) {
    if (!isa.runnable) continue;
    std::vector<float> scores = logits, scratch(2 * logits.size()), weights(6);
    std::vector<int32_t> experts(6);
    choose_experts(isa.table->elementwise, r, scores, {}, scratch, experts.data(), weights.data());
    EXPECT_EQ(experts, want.experts);
    EXPECT_EQ(weights, want.weights);
  }
}

}  // namespace
}  // namespace isotope::ops
