#include "engine/state_replay.h"

#include <gtest/gtest.h>

namespace isotope::engine {
namespace {

using Kind = ops::KvGroupSpec::Kind;

models::ModelConfig v4_pro() {
  models::ModelConfig c;
  c.arch = "DeepseekV4ForCausalLM";
  c.layers = 61;
  c.compressed.q_rank = 1536;
  for (int i = 0; i < 61; ++i) c.layer.push_back({.window = 128, .ratio = i < 2 ? 0 : i % 2 ? 4 : 128});
  return c;
}
const std::vector<ops::KvGroupSpec> kGroups = {{Kind::full}, {Kind::sliding, 128}, {Kind::sliding, 8}};

TEST(StateReplay, FieldOfV4Pro) {
  const StateReplay r = state_replay(v4_pro(), kGroups, {});
  EXPECT_EQ(r.tokens, 7748) << r.off;
  EXPECT_EQ(state_replay(v4_pro(), kGroups, {.draft_layers = 1}).tokens, 7875);
}

TEST(StateReplay, TheLongestWindowCountsAtTheEnd) {
  auto c = v4_pro();
  for (auto& l : c.layer) l.window = 16;
  EXPECT_EQ(state_replay(c, kGroups, {}).tokens, 128 + 60 * 15);
}

TEST(StateReplay, GatesSayWhyItIsOff) {
  auto other = v4_pro(), ratio = v4_pro();
  other.compressed = {};
  ratio.layer[5].ratio = 16;
  struct Case {
    const char* part;
    StateReplay got;
  };
  const Case cases[] = {{"no DeepSeek V4", state_replay(other, kGroups, {})},
                        {"16 tokens", state_replay(ratio, kGroups, {})},
                        {"prefix cache", state_replay(v4_pro(), kGroups, {.prefix_caching = false})},
                        {"drafted", state_replay(v4_pro(), kGroups, {.other_drafter = true})},
                        {"mooncake", state_replay(v4_pro(), kGroups, {.connector = "mooncake"})}};
  for (const Case& c : cases) {
    EXPECT_EQ(c.got.tokens, 0) << c.part;
    EXPECT_NE(c.got.off.find(c.part), std::string::npos) << c.got.off;
  }
}

}  // namespace
}  // namespace isotope::engine
