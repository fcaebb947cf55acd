#include "models/direct.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/layer.h"

namespace isotope::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Records the batch instead of computing.
class Spy final : public Transformer {
 public:
  explicit Spy(std::vector<int64_t> windows) {
    ModelConfig c{.arch = "spy", .layers = int64_t(windows.size()), .hidden = 32, .ffn = 32, .vocab = 50, .heads = 2, .kv_heads = 1, .head_dim = 16};
    for (int64_t w : windows) c.layer.push_back({.window = w});
    set_config(c);
  }
  ops::Tensor forward(ops::Ops&, const ops::Batch& b, const HiddenTap*) const override {
    positions.assign(b.positions.begin(), b.positions.end());
    context_len.assign(b.context_len.begin(), b.context_len.end());
    logit_rows.assign(b.logit_rows.begin(), b.logit_rows.end());
    slots.assign(b.groups[0].slots.begin(), b.groups[0].slots.end());
    tables.clear();
    for (const auto& g : b.groups) tables.emplace_back(g.block_table, g.block_table + g.table_stride * b.S());
    return {};
  }
  mutable std::vector<int32_t> positions, context_len, logit_rows, slots;
  mutable std::vector<std::vector<int32_t>> tables;
};

class DirectTest : public testing::Test {
 protected:
  Direct direct(const Model& m, const DirectOptions& options) {
    auto d = Direct::create(m, *ops_, options);
    if (!d) ADD_FAILURE() << d.error().message(), std::abort();
    return *std::move(d);
  }
  std::unique_ptr<ops::Ops> ops_ = *ops::make_cpu_ops({.threads = 1, .pin = false});
};

TEST(Groups, OneForEachKindOfLayer) {
  const Spy mixed({8, 0, 8, 0, 8});
  ASSERT_EQ(mixed.kv_groups().size(), 2u);
  EXPECT_EQ(mixed.kv_groups()[0].kind, ops::KvGroupSpec::Kind::full);
  EXPECT_EQ(mixed.kv_groups()[0].layers, 2);
  EXPECT_EQ(mixed.kv_groups()[1].kind, ops::KvGroupSpec::Kind::sliding);
  EXPECT_EQ(mixed.kv_groups()[1].window, 8);
  EXPECT_EQ(mixed.kv_groups()[1].layers, 3);
  EXPECT_EQ(mixed.kv_layers()[0].group, 1);
  EXPECT_EQ(mixed.kv_layers()[1].group, 0);
  const Spy sliding({8, 8});
  ASSERT_EQ(sliding.kv_groups().size(), 1u);
  EXPECT_EQ(sliding.kv_groups()[0].window, 8);
}

TEST_F(DirectTest, LaysChunksOut) {
  const Spy m({0});
  Direct d = direct(m, {.max_len = 32, .sequences = 2, .block_size = 16});
  const std::vector<int32_t> a(17, 1), b(1, 7);
  const Chunk first[] = {{.sequence = 0, .tokens = a}, {.sequence = 1, .tokens = b}};
  ASSERT_TRUE(d.step(first));
  EXPECT_EQ(m.positions[16], 16);
  EXPECT_EQ(m.positions[17], 0);
  EXPECT_EQ(m.slots[16], 16);      // second block of sequence 0
  EXPECT_EQ(m.slots[17], 2 * 16);  // first block of sequence 1
  EXPECT_THAT(m.logit_rows, ElementsAre(16, 17));
  const Chunk second[] = {{.sequence = 1, .tokens = b, .no_logits = true}, {.sequence = 0, .tokens = std::span(a).first(2), .all_logits = true}};
  ASSERT_TRUE(d.step(second));
  EXPECT_THAT(m.positions, ElementsAre(1, 17, 18));
  EXPECT_THAT(m.context_len, ElementsAre(2, 19));
  EXPECT_THAT(m.logit_rows, ElementsAre(1, 2));
  EXPECT_THAT(m.tables[0], ElementsAre(2, 3, 0, 1));
}

TEST_F(DirectTest, ForgetsBlocksOutsideTheWindowOfTheFirstQuery) {
  const Spy m({0, 3});
  Direct d = direct(m, {.max_len = 64, .block_size = 16, .forget = true});
  const std::vector<int32_t> a(34, 1), b(1, 1);
  const Chunk first{.tokens = a}, second{.tokens = b};
  ASSERT_TRUE(d.step({&first, 1}));
  EXPECT_THAT(m.tables[1], ElementsAre(0, 1, 2, 3));
  ASSERT_TRUE(d.step({&second, 1}));  // position 34 sees 32, 33, 34
  EXPECT_THAT(m.tables[0], ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(m.tables[1], ElementsAre(-1, -1, 2, 3));
}

TEST_F(DirectTest, RefusesBadIdsAndOverlongSequencesBeforeRunning) {
  const Spy m({0});
  Direct d = direct(m, {.max_len = 3});
  for (int32_t id : {-1, 50, 2000000000}) {
    const int32_t ids[] = {1, id};
    const Chunk c{.tokens = ids};
    const auto r = d.step({&c, 1});
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code, Code::invalid_argument);
    EXPECT_THAT(r.error().what, HasSubstr("token id " + std::to_string(id)));
    EXPECT_THAT(r.error().what, HasSubstr("vocabulary of 50"));
  }
  const int32_t four[] = {1, 2, 3, 4};
  const Chunk c{.tokens = four};
  EXPECT_FALSE(d.step({&c, 1}));
  EXPECT_EQ(d.length(0), 0);
}

TEST(Argmax, TakesTheFirstOfEquals) {
  const float v[] = {1, 3, 3, 2};
  EXPECT_EQ(argmax(v), 1);
}

}  // namespace
}  // namespace isotope::models
