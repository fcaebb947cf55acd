#include "bench_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace isotope::app {
namespace {

BenchRow row(int64_t prompt, int64_t gen) {
  BenchRow r;
  r.model.architecture = "llama";
  r.model.path = "m.gguf";
  r.model.file_type = "Q4_1";
  r.model.parameters = 134'515'008;
  r.model.weight_bytes = 96'576'768;
  r.cpu = "some cpu";
  r.kv_type = "bf16";
  r.threads = 2;
  r.batch = 512;
  r.parallel = 4;
  r.prompt = prompt;
  r.gen = gen;
  r.depth = 64;
  r.time = "2024-01-02T03:04:05Z";
  r.samples_ns = {1'000'000'000, 2'000'000'000};
  return r;
}

TEST(BenchReport, JsonHasTheNamesOfLlamaBench) {
  const auto json = nlohmann::json::parse(bench_json({row(128, 0), row(0, 32)}));
  ASSERT_EQ(json.size(), 2u);
  for (const char* key :
       {"build_commit",   "build_number", "cpu_info", "gpu_info",  "backends", "model_filename", "model_type", "model_size",
        "model_n_params", "n_batch",      "n_ubatch", "n_threads", "type_k",   "type_v",         "n_prompt",   "n_gen",
        "n_depth",        "test_time",    "avg_ns",   "stddev_ns", "avg_ts",   "stddev_ts",      "samples_ns", "samples_ts"})
    EXPECT_TRUE(json[0].contains(key)) << key;
  EXPECT_EQ(json[0]["n_prompt"], 128);
  EXPECT_EQ(json[1]["n_gen"], 32);
  EXPECT_EQ(json[0]["samples_ts"], (std::vector<double>{512, 256}));  // four sequences of 128 tokens
  EXPECT_EQ(json[0]["avg_ts"], 384);
  EXPECT_NEAR(json[0]["stddev_ts"].get<double>(), 181.02, 0.01);
  EXPECT_EQ(json[0]["avg_ns"], 1'500'000'000);
  EXPECT_EQ(bench_json({}), "[]\n");
}

TEST(BenchReport, TableLinesUp) {
  const std::string table = bench_table({row(128, 0), row(0, 32)});
  EXPECT_NE(table.find("| pp128 @ d64 | 384.00 ± 181.02 |\n"), std::string::npos) << table;
  EXPECT_NE(table.find("|  tg32 @ d64 |   96.00 ± 45.25 |\n"), std::string::npos) << table;
  EXPECT_NE(table.find("llama 134.52 M Q4_1 | 92.10 MiB | 134.52 M | CPU "), std::string::npos) << table;
}

TEST(BenchReport, SpreadOfFewSamples) {
  EXPECT_EQ(spread({}).mean, 0);
  EXPECT_EQ(spread({3}).stddev, 0);
  EXPECT_DOUBLE_EQ(spread({1, 3}).mean, 2);
  EXPECT_NEAR(spread({1, 3}).stddev, 1.41421356, 1e-7);
}

}  // namespace
}  // namespace isotope::app
