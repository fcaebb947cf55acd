#include "models/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace isotope::models {
namespace {

using Type = RopeLaw::Type;
using testing::HasSubstr;

struct Case {
  const char* name;
  RopeLaw law;
  int64_t served_len;
  std::vector<float> inv_freq;
  float scale;
};

const std::vector<float> kShort = {1.0, 1.1, 1.2, 1.3, 1.5, 1.8, 2.0, 2.2}, kLong = {1.1, 1.5, 2.5, 5.0, 9.0, 14.0, 20.0, 30.0};

// Numbers: ROPE_INIT_FUNCTIONS of transformers 5.24, 16 dimensions.
const Case kCases[] = {
    {"plain", {}, 4096, {1, 0.316227766f, 0.1f, 0.0316227766f, 0.01f, 0.00316227766f, 0.001f, 0.000316227766f}, 1},
    {"linear", {.type = Type::linear, .factor = 4}, 4096,
     {0.25f, 0.079056941f, 0.0250000004f, 0.00790569466f, 0.00249999994f, 0.000790569466f, 0.000250000012f, 7.90569466e-05f}, 1},
    {"dynamic_within", {.type = Type::dynamic, .factor = 2, .context_len = 4096}, 4096,
     {1, 0.316227764f, 0.100000001f, 0.0316227786f, 0.00999999978f, 0.00316227786f, 0.00100000005f, 0.000316227786f}, 1},
    {"dynamic_beyond", {.type = Type::dynamic, .factor = 2, .context_len = 4096}, 10000,
     {1, 0.260517091f, 0.0678691566f, 0.0176810753f, 0.00460622227f, 0.00119999971f, 0.000312620425f, 8.14429659e-05f}, 1},
    {"llama3", {.type = Type::llama3, .theta = 500000, .factor = 8, .original_len = 8192}, 4096,
     {1, 0.193922758f, 0.0376060307f, 0.00729266508f, 0.000524846022f, 3.42810235e-05f, 6.64786967e-06f, 1.28917316e-06f}, 1},
    {"yarn", {.type = Type::yarn, .theta = 1e6, .factor = 4, .original_len = 32768}, 4096,
     {1, 0.177827939f, 0.0316227786f, 0.00421755994f, 0.000500000024f, 4.44569851e-05f, 7.90569356e-06f, 1.40585337e-06f}, 1.13862944f},
    {"yarn_mscale", {.type = Type::yarn, .factor = 40, .original_len = 4096, .mscale = 0.707, .mscale_all_dim = 1.0, .beta_fast = 16, .beta_slow = 2, .truncate = false},
     4096, {1, 0.316227764f, 0.100000001f, 0.0316227786f, 0.00579010462f, 0.000123952457f, 2.49999994e-05f, 7.90569447e-06f}, 0.921042355f},
    {"yarn_given_scale", {.type = Type::yarn, .factor = 8, .original_len = 512, .attention_factor = 1.25}, 4096,
     {1, 0.247052938f, 0.0562500022f, 0.01087033f, 0.00124999997f, 0.000395284733f, 0.000125000006f, 3.95284733e-05f}, 1.25f},
    {"longrope_short", {.type = Type::longrope, .factor = 32, .original_len = 4096, .short_factor = kShort, .long_factor = kLong}, 4096,
     {1, 0.287479758f, 0.0833333358f, 0.0243252143f, 0.00666666683f, 0.00175682094f, 0.000500000024f, 0.00014373989f}, 1.19023807f},
    {"longrope_long", {.type = Type::longrope, .factor = 32, .original_len = 4096, .short_factor = kShort, .long_factor = kLong}, 4097,
     {0.909090877f, 0.210818499f, 0.0399999991f, 0.00632455572f, 0.00111111114f, 0.000225876982f, 4.99999987e-05f, 1.05409254e-05f}, 1.19023807f},
    {"proportional", {.type = Type::proportional, .factor = 2, .part = 0.5}, 4096, {0.5f, 0.158113882f, 0.05f, 0.0158113893f, 0, 0, 0, 0}, 1},
    {"gguf_divisors", {.divisors = {1, 1, 2, 2, 4, 4, 8, 8}}, 4096,
     {1, 0.316227766f, 0.05f, 0.0158113883f, 0.0025f, 0.000790569415f, 0.000125f, 3.95284708e-05f}, 1},
};

TEST(Rope, LawsGiveTheReferenceFrequencies) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const auto r = make_rope(c.law, 16, c.served_len);
    ASSERT_TRUE(r) << r.error().message();
    ASSERT_EQ(r->inv_freq.size(), c.inv_freq.size());
    for (size_t i = 0; i < c.inv_freq.size(); ++i) EXPECT_NEAR(r->inv_freq[i], c.inv_freq[i], 2e-6 * c.inv_freq[i]) << i;
    EXPECT_NEAR(r->scale, c.scale, 1e-6);
    EXPECT_EQ(r->rot, 16);
  }
}

TEST(Rope, RefusesNumbersThatDoNotFit) {
  struct {
    RopeLaw law;
    int rot;
    const char* says;
  } const cases[] = {
      {{}, 15, "15 dimensions"},
      {{}, 0, "0 dimensions"},
      {{.theta = 0}, 16, "rope_theta is 0"},
      {{.theta = INFINITY}, 16, "rope_theta is inf"},
      {{.type = Type::linear, .factor = -1}, 16, "factor is -1"},
      {{.type = Type::llama3, .factor = 8, .original_len = 0}, 16, "original_max_position_embeddings is 0"},
      {{.type = Type::llama3, .factor = 8, .original_len = 64, .low_freq_factor = 4, .high_freq_factor = 3}, 16, "low_freq_factor 4"},
      {{.type = Type::yarn, .factor = 8, .original_len = 64, .beta_fast = 0}, 16, "beta_fast 0"},
      {{.type = Type::yarn, .theta = 1, .factor = 8, .original_len = 64}, 16, "rope_theta 1"},
      {{.type = Type::longrope, .factor = 8, .original_len = 64, .short_factor = {1, 2}, .long_factor = kLong}, 16, "short_factor has 2 entries"},
      {{.type = Type::longrope, .factor = 8, .original_len = 64, .short_factor = kShort, .long_factor = {1, 1, 1, 1, 1, 1, 1, 0}}, 16, "long_factor holds 0"},
      {{.divisors = {1, 2, 3}}, 16, "rope_freqs.weight has 3 entries"},
      {{.type = Type::dynamic, .factor = 2, .context_len = 0}, 16, "0 positions"},
  };
  for (const auto& c : cases) {
    const auto r = make_rope(c.law, c.rot, 100);
    ASSERT_FALSE(r) << c.says;
    EXPECT_THAT(r.error().what, HasSubstr(c.says));
  }
}

TEST(Rope, KnowsTheSpellingsOfPublishedFiles) {
  EXPECT_EQ(rope_type("su"), Type::longrope);
  EXPECT_EQ(rope_type("default"), Type::plain);
  EXPECT_EQ(rope_type("axial"), std::nullopt);
}

}  // namespace
}  // namespace isotope::models
