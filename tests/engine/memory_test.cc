// The KV cache never takes more memory than was announced, however long it is used.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "collector.h"
#include "levers/levers.h"
#include "support/models.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace isotope::engine::test {
namespace {

int64_t resident_bytes() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(Memory, ResidentSizeStaysWithinTheBudget) {
  const std::string path = isotope::test::cached_model("smollm2-135m");
  if (path.empty()) GTEST_SKIP() << "scripts/fetch-model smollm2-135m brings the model";
  constexpr int64_t kBudget = 16 << 20, kSlack = 4 << 20;  // slack: queue, block tables, allocator
  auto engine = Engine::open({.model = path, .threads = 1, .kv_bytes = kBudget, .max_num_batched_tokens = 256}, levers::Levers::defaults());
  ASSERT_TRUE(engine) << engine.error().message();
  Engine& e = **engine;
  const int64_t block_bytes = e.info().kv_bytes_per_token * 16;
  EXPECT_LE(e.stats().blocks_total * block_bytes, kBudget);
  EXPECT_GT(e.stats().blocks_total * block_bytes, kBudget - 2 * block_bytes);
  const auto score = [&](uint64_t id, int64_t tokens) {
    Request r;
    r.id = id;
    for (int64_t i = 0; i < tokens; ++i) r.prompt.push_back(int32_t(500 + (id * 97 + uint64_t(i) * 13) % 20000));
    r.sampling = {.max_tokens = 0};
    const Answer a = run_one(e, std::move(r));
    EXPECT_EQ(a.finish, FinishReason::length);
  };
  score(0, 256);  // weights are read and buffers have their size
  const int64_t before = resident_bytes();
  for (uint64_t id = 1; id <= 6; ++id) score(id, 250);  // twice what the cache holds
  EXPECT_LE(e.stats().blocks_free, 1);  // every block has been in use
  EXPECT_LE(resident_bytes() - before, kBudget + kSlack);
}

}  // namespace
}  // namespace isotope::engine::test

#endif
