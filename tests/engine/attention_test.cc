// Families whose attention has rules of its own through the whole engine: windows, chunks, layers of other geometry, keys and values read from another layer.
// The same tokens and log-probabilities, to the bit, in a batch, in chunks of any size, after prefix hits and preemption, on any number of threads.
#include <gtest/gtest.h>

#include "family.h"
#include "models/loader.h"
#include "models/model.h"
#include "weights/checkpoint.h"

namespace isotope::engine::test {
namespace {

class AttentionFamilies : public FamilyTest {};

TEST_P(AttentionFamilies, SamePromptSameBits) {
  constexpr int64_t kLongest = 200;
  const Ways ways = {{"together", {}},
                     {"three threads, chunks of 7", {.threads = 3, .long_prefill_token_threshold = 7}},
                     {"chunks of 64, three at once", {.max_num_seqs = 3, .max_num_batched_tokens = 64}},
                     {"preempted every third step", {.max_num_batched_tokens = 100, .preempt_every = 3}},
                     {"without prefix cache", {.prefix_caching = false}}};
  expect_every_way(ways, kLongest, alone(eight(kLongest), {.threads = 1}), [](Engine& e, const EngineOptions& o) {
    // All but the last blocks; three sequences' windows have no room for those that others left behind.
    if (o.prefix_caching) { EXPECT_GE(e.stats(7)->cached_tokens, o.max_num_seqs == 3 ? 16 : 176); }
  });
}

INSTANTIATE_TEST_SUITE_P(Families, AttentionFamilies,
                         testing::Values("cohere2", "starcoder2", "hunyuan_v1_dense", "ministral3", "llama4", "gemma4_e2b", "gemma4_26b_a4b", "gemma3n",
                                         "mimo_v2_flash", "step3p5", "longcat_flash", "mistral4"),
                         [](const auto& info) { return std::string(info.param); });

/// Groups of the cache by window, full first, and the layers that store in each.
TEST(AttentionGroups, LayersThatReadAnothersKeysStoreNothing) {
  struct {
    const char* family;
    std::vector<std::pair<int64_t, int>> groups;  ///< window, layers
  } const cases[] = {
      {"gemma4_e2b", {{0, 1}, {16, 2}}},  // six layers, of which the upper three read the lower ones
      {"gemma3n", {{0, 1}, {16, 3}}},     // six, of which two
      {"llama4", {{0, 1}, {32, 3}}},      // chunks of 32
      {"mimo_v2_flash", {{0, 2}, {17, 3}}},  // and two multi-token-prediction heads, which slide
      {"longcat_flash", {{0, 4}}},        // two attentions a layer
      {"starcoder2", {{16, 2}}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.family);
    const auto files = weights::open_checkpoint(golden_folder(c.family), {});
    ASSERT_TRUE(files) << files.error().message();
    const auto config = models::parse_config(**files);
    ASSERT_TRUE(config) << config.error().message();
    const auto ops = *ops::make_cpu_ops({.threads = 1, .pin = false});
    const auto model = models::load_model(**files, *ops, {}, *config);
    ASSERT_TRUE(model) << model.error().message();
    std::vector<std::pair<int64_t, int>> got;
    int layers = 0;
    for (const ops::KvGroupSpec& g : (*model)->kv_groups()) got.push_back({g.window, g.layers}), layers += g.layers;
    EXPECT_EQ(got, c.groups);
    EXPECT_EQ(int((*model)->kv_layers().size()), layers);
  }
}

}  // namespace
}  // namespace isotope::engine::test
