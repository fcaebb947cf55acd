// Families whose attention has rules of its own through the whole engine: windows, chunks, layers of other geometry, keys and values read from another layer.
// The same tokens and log-probabilities, to the bit, in a batch, in chunks of any size, after prefix hits and preemption, on any number of threads.
#include <gtest/gtest.h>

#include "collector.h"
#include "levers/levers.h"
#include "models/loader.h"
#include "models/model.h"
#include "weights/checkpoint.h"

namespace isotope::engine::test {
namespace {

std::string folder(const char* family) { return std::string(ISOTOPE_SOURCE_DIR "/tests/oracle/goldens/") + family; }

class AttentionFamilies : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Engine> open(EngineOptions o = {}) {
    o.model = folder(GetParam());
    o.kv_bytes = 64 << 20;
    if (!o.threads) o.threads = 2;
    o.max_model_len = 512;
    auto e = Engine::open(o, *levers::Levers::resolve({}));
    EXPECT_TRUE(e) << (e ? "" : e.error().message());
    return e ? std::move(*e) : nullptr;
  }
  /// Prompts of one seed are prefixes of each other.
  static Request request(uint64_t id, int64_t length, uint32_t seed) {
    Request r;
    r.id = id;
    r.prompt.resize(size_t(length));
    for (size_t i = 0; i < r.prompt.size(); ++i) r.prompt[i] = int32_t(3 + (i * 7919 + seed * 104729 + i * i * 31) % 250);
    r.sampling = {.temperature = id % 2 ? 0.8f : 0.0f, .seed = id, .max_tokens = 12, .ignore_eos = true, .logprobs = 2};
    return r;
  }
  static std::vector<Request> eight() {
    const int64_t lengths[] = {1, 2, 15, 17, 33, 64, 130, 200};
    std::vector<Request> v;
    for (uint64_t i = 0; i < 8; ++i) v.push_back(request(i, lengths[i], uint32_t(i % 3)));
    return v;
  }
};

TEST_P(AttentionFamilies, SamePromptSameBits) {
  std::map<uint64_t, Answer> want;
  for (Request& r : eight()) {
    const auto e = open({.threads = 1});
    ASSERT_TRUE(e);
    const uint64_t id = r.id;
    want[id] = run_one(*e, std::move(r));
    ASSERT_EQ(want[id].tokens.size(), 12u);
  }
  const std::pair<const char*, EngineOptions> ways[] = {
      {"together", {}},
      {"three threads, chunks of 7", {.threads = 3, .long_prefill_token_threshold = 7}},
      {"chunks of 64, three at once", {.max_num_seqs = 3, .max_num_batched_tokens = 64}},
      {"preempted every third step", {.max_num_batched_tokens = 100, .preempt_every = 3}},
      {"without prefix cache", {.prefix_caching = false}},
  };
  for (const auto& [name, options] : ways) {
    const auto e = open(options);
    ASSERT_TRUE(e);
    for (const char* time : {"", ", again"}) {
      const auto got = run(*e, eight());
      ASSERT_EQ(got.size(), want.size());
      for (const auto& [id, a] : want) expect_same(got.at(id), a, std::string(name) + time + ", request " + std::to_string(id));
    }
    EXPECT_EQ(e->stats().preemptions > 0, options.preempt_every > 0);
    // All but the last blocks; three sequences' windows have no room for those that others left behind.
    if (options.prefix_caching) { EXPECT_GE(e->stats(7)->cached_tokens, options.max_num_seqs == 3 ? 16 : 176) << name; }
    const EngineStats s = e->stats();
    EXPECT_EQ(s.blocks_free + s.blocks_evictable, s.blocks_total);
    EXPECT_NE(e->metrics().find("isotope:kv_integrity_errors_total 0.0"), std::string::npos);
  }
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
      {"mimo_v2_flash", {{0, 2}, {17, 1}}},
      {"longcat_flash", {{0, 4}}},        // two attentions a layer
      {"starcoder2", {{16, 2}}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.family);
    const auto files = weights::open_checkpoint(folder(c.family), {});
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
