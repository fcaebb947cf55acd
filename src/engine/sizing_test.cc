#include "engine/sizing.h"

#include <gtest/gtest.h>

namespace isotope::engine {
namespace {

struct Case {
  const char* name;
  std::vector<KvGroupCost> groups;
  EngineOptions options;
  int64_t len;
  size_t bytes;
  int64_t want_len;
  std::vector<int64_t> want_blocks;
};

TEST(KvSizing, SharesMemoryAmongGroups) {
  const EngineOptions o{.block_size = 16, .max_num_seqs = 4, .max_num_batched_tokens = 64};
  const Case cases[] = {
      {"all that four sequences can use", {{0, 1000}}, o, 320, 1'000'000, 320, {80}},
      {"what memory allows", {{0, 1000}}, o, 320, 50'500, 320, {50}},
      {"length cut to memory", {{0, 1000}}, o, 3200, 50'500, 800, {50}},
      {"sliding beside full", {{0, 1000}, {32, 1000}}, o, 3200, 1'000'000, 3200, {800, 4 * 4 + 4}},
      {"sliding leaves room for the longest", {{0, 1000}, {32, 1000}}, o, 3200, 212'000, 3200, {200, 12}},
      {"only sliding", {{32, 1000}}, o, 3200, 1'000'000, 3200, {4 * 4 + 4}},
  };
  for (const Case& c : cases) {
    const auto s = size_kv(c.groups, c.options, c.len, c.bytes);
    ASSERT_TRUE(s) << c.name;
    EXPECT_EQ(s->max_model_len, c.want_len) << c.name;
    size_t bytes = 0;
    for (size_t g = 0; g < c.groups.size(); ++g) {
      EXPECT_EQ(s->groups[g].blocks, c.want_blocks[g]) << c.name << " group " << g;
      bytes += size_t(s->groups[g].blocks) * c.groups[g].block_bytes;
    }
    EXPECT_EQ(s->bytes, bytes);
    EXPECT_LE(bytes, c.bytes) << c.name;
  }
}

TEST(KvSizing, TooLittleIsAnError) {
  const KvGroupCost g[] = {{0, 1000}};
  const auto s = size_kv(g, {.kv_bytes = 1500}, 4096, 1500);
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().code, Code::resource_exhausted);
  EXPECT_NE(s.error().message().find("--kv-cache-memory-bytes"), std::string::npos);
}

TEST(KvSizing, WithoutChunkingAWholePromptMustFitTheWindowGroup) {
  const KvGroupCost g[] = {{0, 10}, {32, 10}};
  const auto s = size_kv(g, {.max_num_seqs = 1, .max_num_batched_tokens = 64, .chunked_prefill = false}, 1600, 1'000'000);
  ASSERT_TRUE(s);
  EXPECT_GE(s->groups[1].blocks, 100);
}

TEST(KvSizing, BudgetIsExactWhenGiven) {
  EXPECT_EQ(*kv_budget({.kv_bytes = 12345}), 12345u);
  EXPECT_GT(*kv_budget({.memory_fraction = 0.1}), 0u);
}

}  // namespace
}  // namespace isotope::engine
