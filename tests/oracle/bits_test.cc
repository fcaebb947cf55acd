// Same prompt, same bits (docs/architecture.md, contract 1), through whole models: however a prompt is cut into steps, whatever runs beside it, on how
// many threads, in which blocks of the cache, its logits are equal to the last bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "golden.h"
#include "support/models.h"

namespace isotope::oracle {
namespace {

struct Way {
  const char* name;
  int threads = 1;
  size_t chunk = 1000000;   ///< prompt tokens a step
  bool neighbours = false;  ///< two other sequences run beside, with other lengths
  bool scatter = false;     ///< blocks in scrambled order, those outside a window freed
  bool last_only = false;   ///< logits of the last token only
};
// The first one is what the others are compared with.
const Way kWays[] = {
    {.name = "whole"},
    {.name = "chunk_1", .chunk = 1},
    {.name = "chunk_7", .chunk = 7},
    {.name = "chunk_16", .chunk = 16},
    {.name = "chunk_64", .chunk = 64},
    {.name = "in_a_batch", .neighbours = true},
    {.name = "in_a_batch_chunk_7_scattered", .threads = 2, .chunk = 7, .neighbours = true, .scatter = true},
    {.name = "threads_2", .threads = 2},
    {.name = "threads_3_chunk_16", .threads = 3, .chunk = 16},
    {.name = "threads_3_last_only_scattered", .threads = 3, .chunk = 7, .scatter = true, .last_only = true},
};

std::vector<int32_t> random_ids(size_t n, int64_t vocab, uint32_t seed) {
  std::mt19937 gen(seed);
  std::vector<int32_t> ids(n);
  for (int32_t& t : ids) t = int32_t(gen() % uint64_t(vocab));
  return ids;
}

/// Logits of `prompt` as sequence 1 of three (or alone), [T, V]; with last_only [1, V].
std::vector<float> run(const Loaded& l, std::span<const int32_t> prompt, const Way& way, KvType kv) {
  const int64_t vocab = l.model->config().vocab;
  const std::vector<int32_t> before = random_ids(prompt.size() / 2 + 1, vocab, 5), after = random_ids(prompt.size() + 9, vocab, 6);
  const std::span<const int32_t> all[3] = {before, prompt, after};
  auto direct = models::Direct::create(*l.model, *l.ops, {.max_len = int64_t(prompt.size()) + 16, .sequences = 3, .kv = kv, .scatter = way.scatter, .forget = way.scatter});
  EXPECT_TRUE(direct) << direct.error().message();
  std::vector<float> out;
  for (size_t at = 0; at < prompt.size(); at += std::min(way.chunk, prompt.size())) {
    std::vector<models::Chunk> chunks;
    size_t skip = 0;  // rows before ours
    for (int s = way.neighbours ? 0 : 1; s < (way.neighbours ? 3 : 2); ++s) {
      if (at >= all[s].size()) continue;
      const auto ids = all[s].subspan(at, std::min(way.chunk, all[s].size() - at));
      const bool last = at + ids.size() == all[s].size(), ours = s == 1;
      chunks.push_back({.sequence = s, .tokens = ids, .all_logits = ours && !way.last_only, .no_logits = ours ? way.last_only && !last : at == 0});
      if (s == 0) skip = chunks.back().no_logits ? 0 : 1;
    }
    const auto t = direct->step(chunks);
    EXPECT_TRUE(t) << t.error().message();
    const size_t ours = way.last_only ? (at + way.chunk >= prompt.size() ? 1 : 0) : std::min(way.chunk, prompt.size() - at);
    for (size_t r = 0; r < ours; ++r) out.insert(out.end(), t->row(int64_t(skip + r)), t->row(int64_t(skip + r)) + vocab);
  }
  return out;
}

void expect_same_bits(const std::string& path, const std::vector<int32_t>& prompt, Precision precision, KvType kv) {
  std::vector<float> want;
  size_t vocab = 0;
  for (int threads : {1, 2, 3}) {
    const auto l = load(path, 0, {.threads = threads, .precision = precision, .pin = false});
    ASSERT_TRUE(l) << l.error().message();
    vocab = size_t(l->model->config().vocab);
    for (const Way& way : kWays) {
      if (way.threads != threads) continue;
      SCOPED_TRACE(way.name);
      const std::vector<float> got = run(*l, prompt, way, kv);
      if (want.empty()) {
        want = got;
        ASSERT_TRUE(std::all_of(want.begin(), want.end(), [](float v) { return std::isfinite(v); }));
        ASSERT_NE(std::memcmp(want.data(), want.data() + vocab, vocab * sizeof(float)), 0) << "every row is the same: nothing was compared";
      }
      const auto compared = way.last_only ? std::span(want).last(vocab) : std::span(want);
      ASSERT_EQ(got.size(), compared.size());
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(std::memcmp(&got[i], &compared[i], sizeof(float)), 0) << "row " << i / vocab << ", token " << i % vocab << ": " << got[i] << " and " << compared[i];
    }
  }
}

class TinyBits : public testing::TestWithParam<std::string> {};
TEST_P(TinyBits, AreTheSameHoweverThePromptRuns) {
  const Golden g = read_golden(GetParam());
  const std::string folder = goldens_folder() + "/" + GetParam();
  expect_same_bits(folder, g.prompts.back().ids, Precision::fast, KvType::bf16);
  expect_same_bits(folder, g.prompts.back().ids, Precision::exact, KvType::f32);
}
INSTANTIATE_TEST_SUITE_P(Families, TinyBits, testing::ValuesIn(families()), [](const auto& info) { return info.param; });

/// The same of a model's multi-token-prediction heads, one after the other: what each reads comes from steps cut in the same way.
std::vector<float> run_heads(const Loaded& l, std::span<const int32_t> ids, const Way& way, KvType kv) {
  const models::Model& m = *l.model;
  const size_t heads = size_t(m.draft_heads()), T = ids.size() - heads - 1, width = size_t(m.draft_width());
  auto direct = models::Direct::create(m, *l.ops, {.max_len = int64_t(T) + 16, .sequences = 3, .kv = kv, .scatter = way.scatter, .forget = way.scatter});
  EXPECT_TRUE(direct) << direct.error().message();
  std::vector<float> out;
  std::vector<std::vector<float>> states(heads + 1);  // of sequence 1: what each head reads
  for (size_t h = 0; h <= heads; ++h) {               // 0: the model itself
    for (size_t at = 0; at < T; at += std::min(way.chunk, T)) {
      const size_t n = std::min(way.chunk, T - at);
      std::vector<models::Chunk> chunks;
      std::vector<float> hidden;
      if (way.neighbours) {  // another sequence before it, whose rows are those of ours
        chunks.push_back({.sequence = 0, .tokens = ids.subspan(h + at, n)});
        if (h) hidden.insert(hidden.end(), states[h - 1].begin() + int64_t(at * width), states[h - 1].begin() + int64_t((at + n) * width));
      }
      const bool last = at + n == T;
      chunks.push_back({.sequence = 1, .tokens = ids.subspan(h + at, n), .all_logits = !way.last_only, .no_logits = way.last_only && !last});
      if (h) hidden.insert(hidden.end(), states[h - 1].begin() + int64_t(at * width), states[h - 1].begin() + int64_t((at + n) * width));
      ops::Tensor logits, state;
      if (h == 0) {
        const auto t = direct->step_for_drafts(chunks, state);
        EXPECT_TRUE(t) << t.error().message();
        logits = *t;
      } else {
        const auto r = direct->draft(chunks, {.head = int(h) - 1, .hidden = as_tensor(hidden, int64_t(width)), .all_rows = h < heads});
        EXPECT_TRUE(r) << r.error().message();
        logits = r->logits, state = r->hidden;
      }
      const std::vector<float> got = rows_of(logits), all = rows_of(state);
      const size_t vocab = size_t(m.config().vocab), skip = way.neighbours ? 1 : 0;
      out.insert(out.end(), got.begin() + int64_t(skip * vocab), got.end());
      if (h < heads) states[h].insert(states[h].end(), all.end() - int64_t(n * width), all.end());
    }
  }
  return out;
}

class HeadBits : public testing::TestWithParam<std::string> {};
TEST_P(HeadBits, AreTheSameHoweverThePromptRuns) {
  const Golden g = read_golden(GetParam());
  for (const auto& [precision, kv] : {std::pair(Precision::fast, KvType::bf16), {Precision::exact, KvType::f32}}) {
    std::vector<float> want;
    size_t vocab = 0, rows = 0;
    for (int threads : {1, 2, 3}) {
      const auto l = load(goldens_folder() + "/" + GetParam(), 0, {.threads = threads, .precision = precision, .pin = false});
      ASSERT_TRUE(l) << l.error().message();
      ASSERT_GT(l->model->draft_heads(), 0);
      vocab = size_t(l->model->config().vocab), rows = g.prompts.back().ids.size() - size_t(l->model->draft_heads()) - 1;
      for (const Way& way : kWays) {
        if (way.threads != threads) continue;
        SCOPED_TRACE(way.name);
        const std::vector<float> got = run_heads(*l, g.prompts.back().ids, way, kv);
        if (want.empty()) want = got;
        ASSERT_TRUE(std::all_of(got.begin(), got.end(), [](float v) { return std::isfinite(v); }));
        std::vector<float> compared = want;
        if (way.last_only) {
          compared.clear();
          for (size_t end = rows; end * vocab <= want.size(); end += rows)
            compared.insert(compared.end(), want.begin() + int64_t((end - 1) * vocab), want.begin() + int64_t(end * vocab));
        }
        ASSERT_EQ(got.size(), compared.size());
        ASSERT_EQ(std::memcmp(got.data(), compared.data(), got.size() * sizeof(float)), 0);
      }
    }
    // The model's own logits do not change when the states for heads are asked for.
    const auto l = load(goldens_folder() + "/" + GetParam(), 0, {.threads = 1, .precision = precision, .pin = false});
    ASSERT_TRUE(l) << l.error().message();
    const std::vector<float> own = run(*l, std::span(g.prompts.back().ids).first(rows), kWays[0], kv);
    EXPECT_EQ(std::memcmp(own.data(), want.data(), own.size() * sizeof(float)), 0);
  }
}
INSTANTIATE_TEST_SUITE_P(Families, HeadBits, testing::ValuesIn(families_with_heads()), [](const auto& info) { return info.param; });

/// Experts in blocks of 256 with minima; few of them, so that their rows are now single ones and now panels. `random_gguf.py --shape qwen3moe-tiny --vocab 96
/// --context 256` made it.
TEST(FileBits, MixtureOfExpertsInQ4K) {
  expect_same_bits(goldens_folder() + "/../files/qwen3moe-tiny-Q4_K.gguf", random_ids(61, 96, 8), Precision::fast, KvType::bf16);
}

struct Real {
  const char* model;
  KvType kv;
};
class RealBits : public testing::TestWithParam<Real> {};
TEST_P(RealBits, AreTheSameHoweverThePromptRuns) {
  const std::string path = test::cached_model(GetParam().model);
  if (path.empty()) GTEST_SKIP() << GetParam().model << " has not been fetched";
  expect_same_bits(path, random_ids(37, 40000, 7), Precision::fast, GetParam().kv);
}
INSTANTIATE_TEST_SUITE_P(Models, RealBits,
                         testing::Values(Real{"smollm2-135m", KvType::bf16}, Real{"smollm2-135m", KvType::int8}, Real{"gemma3-270m", KvType::bf16},
                                         Real{"gemma3-270m", KvType::f16}),
                         [](const auto& info) { return (info.param.model[0] == 's' ? "smollm2_" : "gemma3_") + std::to_string(int(info.param.kv)); });

}  // namespace
}  // namespace isotope::oracle
