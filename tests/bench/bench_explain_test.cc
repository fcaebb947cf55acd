// Shares of a machine's limits, from times that are given.
#include "bench_explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace isotope::app {
namespace {

using testing::HasSubstr;

// Two steps of 100 µs: 60 in a layer at half the bandwidth, 20 in one at a quarter of the int8 peak, 10 between ops, 6 sampling, 4 in the engine.
StepTimes two_steps() {
  StepProfile p;
  const size_t reading = p.declare_op({.name = "linear Q4_K 64>128", .kernel = "int8 dots, 1 row", .arithmetic = OpTime::Arithmetic::int8});
  const size_t unused = p.declare_op({.name = "softcap", .kernel = "float32"});
  const size_t computing = p.declare_op({.name = "linear Q8_0 64>64", .kernel = "int8 dots, panels of 16 rows", .arithmetic = OpTime::Arithmetic::int8});
  EXPECT_NE(unused, reading);
  for (int i = 0; i < 2; ++i) {
    p.add_op(reading, 60'000, 300'000, 1000);
    p.add_op(computing, 20'000, 8, 5'000'000);
    p.add_step(90'000);
    p.add_sampling(6'000);
    p.add_gap(4'000);
  }
  return p.take();
}

constexpr ops::MachineLimits kLimits{.int8_ops = 1e12, .float_ops = 2e11, .bf16_ops = 4e11, .read_bytes = 1e10};

TEST(Explain, SharesOfTheLimits) {
  const auto j = explain_json(two_steps(), kLimits);
  EXPECT_EQ(j["steps"], 2);
  EXPECT_NEAR(j["us_per_step"].get<double>(), 100, 1e-9);
  EXPECT_NEAR(j["model_us"].get<double>(), 10, 1e-9);
  EXPECT_NEAR(j["engine_share"].get<double>(), 0.04, 1e-9);
  ASSERT_EQ(j["ops"].size(), 2u) << "an op without calls is no line";
  EXPECT_EQ(j["ops"][0]["op"], "linear Q4_K 64>128") << "the dearest first";
  EXPECT_NEAR(j["ops"][0]["share_of_limit"].get<double>(), 0.5, 1e-9);
  EXPECT_EQ(j["ops"][0]["bound_by"], "memory");
  EXPECT_NEAR(j["ops"][1]["share_of_limit"].get<double>(), 0.25, 1e-9);
  EXPECT_EQ(j["ops"][1]["bound_by"], "arithmetic");
}

TEST(Explain, TextNamesWhatBoundsTheStep) {
  const std::string text = explain_text("m, tg2", two_steps(), kLimits);
  EXPECT_THAT(text, HasSubstr("m, tg2: 2 steps of 100.0 µs"));
  EXPECT_THAT(text, HasSubstr("engine outside the model"));
  EXPECT_THAT(text, HasSubstr("The step could take 35.0 µs at the limits (35 % reached), 86 % of that for reading: it is bound by memory."));
}

TEST(Explain, TakingStartsAnew) {
  StepProfile p;
  const size_t op = p.declare_op({.name = "add"});
  p.add_op(op, 5, 0, 0);
  p.add_step(5);
  EXPECT_EQ(p.take().ops.size(), 1u);
  const StepTimes none = p.take();
  EXPECT_EQ(none.steps, 0);
  EXPECT_TRUE(none.ops.empty());
  EXPECT_EQ(explain_json(none, {})["ops"].size(), 0u);  // nothing to divide by
  p.add_op(op, 7, 0, 0);
  EXPECT_EQ(p.take().ops[0].ns, 7);
}

}  // namespace
}  // namespace isotope::app
