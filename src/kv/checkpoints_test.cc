#include "kv/checkpoints.h"

#include <gtest/gtest.h>

#include <vector>

namespace isotope::kv {
namespace {

constexpr int kBlock = 16;

/// Positions at which a prompt's steps end.
std::vector<int64_t> cuts(const CheckpointOptions& o, const CheckpointPlan& p) {
  std::vector<int64_t> out;
  for (int64_t at = p.next(o, p.last); at > 0; at = p.next(o, at)) {
    EXPECT_TRUE(p.wanted(o, kBlock, at)) << at;
    out.push_back(at);
  }
  return out;
}

struct Case {
  const char* name;
  CheckpointOptions options;
  int64_t prompt, reused, reachable;
  std::vector<int64_t> want;
};

TEST(Checkpoints, WhereThePromptIsCut) {
  const Case cases[] = {
      {"anchor alone", {.interval = -1}, 100, 0, 0, {96}},
      {"a whole number of blocks: the last token is computed", {.interval = -1}, 96, 0, 0, {80}},
      {"one token behind the block", {.interval = -1}, 97, 0, 0, {96}},
      {"end margin", {.interval = -1, .end_margin = 5}, 97, 0, 0, {80}},
      {"end margin that leaves nothing", {.interval = -1, .end_margin = 90}, 97, 0, 0, {}},
      {"too short", {.interval = -1}, 16, 0, 0, {}},
      {"just long enough", {.interval = -1}, 17, 0, 0, {16}},
      {"rungs", {.interval = 32}, 100, 0, 0, {32, 64, 96}},
      {"rungs behind the hit", {.interval = 32}, 100, 48, 48, {64, 96}},
      {"demand", {.interval = -1}, 200, 0, 64, {64, 192}},
      {"demand off", {.interval = -1, .demand = false}, 200, 0, 64, {192}},
      {"demand that is no more than the hit", {.interval = -1}, 200, 64, 64, {192}},
      {"all off", {.interval = 0}, 200, 0, 64, {}},
  };
  for (const Case& c : cases) EXPECT_EQ(cuts(c.options, plan_checkpoints(c.options, kBlock, c.prompt, c.reused, c.reachable)), c.want) << c.name;
}

TEST(Checkpoints, WhileTokensAreGenerated) {
  const CheckpointOptions o{.interval = 32};
  CheckpointPlan p = plan_checkpoints(o, kBlock, 100, 0, 0);
  p.last = 96;
  for (int64_t at = 101; at < 200; ++at) {
    const bool due = at == 128 || at == 160 || at == 192;
    EXPECT_EQ(p.wanted(o, kBlock, at), due) << at;
    if (due) p.last = at;
  }
  EXPECT_FALSE(p.wanted({.interval = -1}, kBlock, 128));
  EXPECT_FALSE(p.wanted({.interval = 0}, kBlock, 96));
}

}  // namespace
}  // namespace isotope::kv
