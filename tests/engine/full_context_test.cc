// Where other engines shift the context and their quantized caches assert or corrupt (field report G29), an answer ends: with every KV type, rotary law and window.
// The program refuses --context-shift (tests/cli/serve_test.py).
#include <gtest/gtest.h>

#include "collector.h"
#include "levers/levers.h"

namespace isotope::engine::test {
namespace {

class FullContext : public testing::TestWithParam<const char*> {};

TEST_P(FullContext, EndsTheAnswerWithEveryKvType) {
  for (const KvType kv : {KvType::f32, KvType::f16, KvType::bf16, KvType::int8, KvType::fp8}) {
    SCOPED_TRACE(int(kv));
    EngineOptions o{.model = std::string(ISOTOPE_SOURCE_DIR "/tests/oracle/goldens/") + GetParam(), .kv_type = kv, .threads = 1, .max_model_len = 64, .kv_bytes = 8 << 20};
    const auto e = Engine::open(o, *levers::Levers::resolve({}));
    ASSERT_TRUE(e) << e.error().message();
    const auto request = [](uint64_t id, int64_t tokens) {
      Request r;
      r.id = id;
      for (int i = 0; i < 20; ++i) r.prompt.push_back(3 + (i * 7919) % 200);
      r.sampling = {.temperature = 0, .max_tokens = tokens, .ignore_eos = true};
      r.sink = [](const TokenEvent&) {};
      return r;
    };
    const auto more = (*e)->submit(request(9, 300));
    ASSERT_FALSE(more) << "more than the context holds is refused, not shifted";
    EXPECT_NE(more.error().message().find("64"), std::string::npos) << more.error().message();
    Answer first;
    for (uint64_t id = 1; id <= 3; ++id) {  // the later ones find the blocks that the first one left
      const Answer a = run_one(**e, request(id, 44));
      EXPECT_EQ(a.finish, FinishReason::length);
      EXPECT_EQ(a.tokens.size(), 44u) << "up to the last token";
      if (id == 1) first = a;
      EXPECT_EQ(a.tokens, first.tokens);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FullContext, testing::Values("llama", "qwen3_yarn", "gemma3", "gpt_oss"), [](const auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace isotope::engine::test
