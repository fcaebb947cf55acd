// States of recurrent layers that are stored in the middle of a step, and the check of who holds slots.
#include <gtest/gtest.h>

#include <numeric>

#include "kv/manager.h"
#include "kv/state_check.h"

namespace isotope::kv {
namespace {

constexpr int B = 4;

struct Images : testing::Test {
  Images() {
    std::iota(tokens.begin(), tokens.end(), 1);
    base::extend_chain(s.links, tokens, B, s.key);
    EXPECT_EQ(m.claim(s, tokens, 9), 0);
    EXPECT_TRUE(m.grow(s, 40));
  }
  int64_t hit(int64_t limit = 39) {
    SeqBlocks other;
    base::extend_chain(other.links, tokens, B, other.key);
    return m.match(other, tokens, limit).blocks;
  }
  bool consistent() {
    const SeqBlocks* all[] = {&s};
    return m.check_integrity(all) == nullptr;
  }
  std::vector<int32_t> tokens = std::vector<int32_t>(40);
  Manager m{B, std::vector<GroupConfig>{{32, 0}, {4, kStateGroup}}, true, {.copy_state = [](int, int32_t, int32_t) {}}};
  SeqBlocks s;
};

TEST_F(Images, AreFoundOnceTheStepIsDone) {
  EXPECT_TRUE(m.reserve_image(s, 32));
  EXPECT_TRUE(m.reserve_image(s, 8));
  ASSERT_EQ(s.images.size(), 2u);
  EXPECT_EQ(s.images[0].position, 8);  // ascending
  EXPECT_TRUE(consistent());
  EXPECT_EQ(hit(), 0);
  m.commit(s, tokens, 40);
  EXPECT_EQ(hit(), 0);
  EXPECT_EQ(m.publish_images(s, tokens), 2);
  EXPECT_TRUE(consistent());
  EXPECT_EQ(hit(), 8);
  EXPECT_EQ(hit(31), 2);
  EXPECT_TRUE(m.reserve_image(s, 8)) << "it is there already";
  EXPECT_TRUE(s.images.empty());
  m.release(s);
  EXPECT_EQ(m.pool(1).available(), 4);
}

TEST_F(Images, AreTakenBackWithTheRequest) {
  EXPECT_TRUE(m.reserve_image(s, 32));
  EXPECT_TRUE(m.reserve_image(s, 16));
  m.release(s);
  EXPECT_TRUE(consistent());
  EXPECT_EQ(m.pool(1).free(), 4);
  EXPECT_EQ(hit(), 0);
}

TEST_F(Images, NeedASlotABoundaryAndTheRightToFeed) {
  EXPECT_FALSE(m.reserve_image(s, 30));
  EXPECT_FALSE(m.reserve_image(s, 44)) << "its block is not known";
  for (int64_t at : {32, 28, 24}) EXPECT_TRUE(m.reserve_image(s, at));
  EXPECT_FALSE(m.reserve_image(s, 20)) << "no slot is left";
  m.cancel_images(s);
  EXPECT_TRUE(consistent());
  s.cacheable = false;
  EXPECT_FALSE(m.reserve_image(s, 32));
  s.cacheable = true;
  EXPECT_TRUE(m.reserve_image(s, 32));
  m.forget_prefixes();
  EXPECT_EQ(m.publish_images(s, tokens), 0) << "what was computed before is not kept";
  EXPECT_TRUE(consistent());
}

TEST_F(Images, OfTheStepAreNoneTooMany) {
  for (int64_t at : {32, 16}) EXPECT_TRUE(m.reserve_image(s, at));
  EXPECT_EQ(state_blocks(s, 0, 40), 1);
  EXPECT_EQ(state_blocks(s, 16, 40), 2) << "one is left over from the step before";
  EXPECT_EQ(state_blocks(s, 32, 40), 3);
  EXPECT_EQ(state_blocks(SeqBlocks{}, 0, 1), 0);
}

}  // namespace
}  // namespace isotope::kv
