// Opening a model: what the options may say, and what the engine tells about itself.
#include <gtest/gtest.h>

#include <mutex>

#include "base/log.h"
#include "collector.h"
#include "levers/levers.h"
#include "support/models.h"

namespace isotope::engine::test {
namespace {

class Open : public testing::Test {
 protected:
  void SetUp() override {
    path_ = isotope::test::cached_model("smollm2-135m");
    if (path_.empty()) GTEST_SKIP() << "scripts/fetch-model smollm2-135m brings the model";
    base::set_log_sink([this](base::LogLevel, std::string_view line) { log_ += std::string(line) + "\n"; });
  }
  void TearDown() override { base::set_log_sink({}); }
  Result<std::unique_ptr<Engine>> open(EngineOptions o) {
    if (o.model.empty()) o.model = path_;
    if (!o.kv_bytes) o.kv_bytes = 64 << 20;
    return Engine::open(o, levers::Levers::defaults());
  }
  std::string path_, log_;
};

TEST_F(Open, BadOptionsAreNamed) {
  const struct {
    const char* name;
    EngineOptions options;
    Code code;
    const char* says;
  } cases[] = {
      {"no file", {.model = "/nonexistent/model.gguf"}, Code::not_found, "/nonexistent/model.gguf"},
      {"longer than trained",
       {.max_model_len = 8193},
       Code::invalid_argument,
       "8193 tokens is asked for, the model was trained for 8192"},
      {"block size", {.block_size = 3}, Code::invalid_argument, "block"},
      {"block size 0", {.block_size = 0}, Code::invalid_argument, "--block-size is 0"},
      {"block size 8", {.block_size = 8}, Code::invalid_argument, "--block-size is 8"},
      {"block size 48", {.block_size = 48}, Code::invalid_argument, "--block-size is 48"},
      {"block size 8192", {.block_size = 8192}, Code::invalid_argument, "--block-size is 8192"},
      {"no sequences", {.max_num_seqs = 0}, Code::invalid_argument, "--max-num-seqs is 0"},
      {"no tokens", {.max_num_batched_tokens = 0}, Code::invalid_argument, "--max-num-batched-tokens is 0"},
      {"fraction", {.memory_fraction = 0}, Code::invalid_argument, "memory fraction is 0"},
      {"little memory", {.kv_bytes = 100'000}, Code::resource_exhausted, "--kv-cache-memory-bytes"},
      {"isa", {.isa = "itanium"}, Code::invalid_argument, "itanium"},
      {"threads", {.threads = -1}, Code::invalid_argument, "-1 threads"},
  };
  for (const auto& c : cases) {
    const auto e = open(c.options);
    ASSERT_FALSE(e) << c.name;
    EXPECT_NE(e.error().message().find(c.says), std::string::npos) << c.name << ": " << e.error().message();
    EXPECT_FALSE(e.error().remedy.empty()) << c.name << ": " << e.error().message();
    EXPECT_EQ(e.error().code, c.code) << c.name;
  }
}

TEST_F(Open, TellsWhatItIs) {
  const auto e = open({.served_name = "my model"});
  ASSERT_TRUE(e) << e.error().message();
  const ModelInfo& m = (*e)->info();
  EXPECT_EQ(m.name, "my model");
  EXPECT_EQ(m.architecture, "llama");
  EXPECT_EQ(m.file_type, "Q4_1");
  EXPECT_EQ(m.vocab, 49152);
  EXPECT_EQ(m.context_length, 8192);
  EXPECT_EQ(m.kv_bytes_per_token, 30 * 2 * 3 * 64 * 2);
  EXPECT_EQ(m.eos_ids, (std::vector<int32_t>{0, 2}));
  EXPECT_TRUE(m.fingerprint.starts_with("fp_"));
  EXPECT_EQ((*e)->vocab().tokens.size(), 49152u);
}

TEST_F(Open, CutsTheContextToWhatFitsAndSaysSo) {
  const auto e = open({.kv_bytes = 23040 * 1000});
  ASSERT_TRUE(e) << e.error().message();
  EXPECT_EQ((*e)->info().max_model_len, 1000 / 16 * 16);
  EXPECT_NE(log_.find("the context is cut from 8192 to 992 tokens"), std::string::npos) << log_;
  EXPECT_NE(log_.find("KV cache: 0.02 GiB of bf16 for 992 tokens"), std::string::npos) << log_;
}

TEST_F(Open, FingerprintNamesWhatChangesBits) {
  const auto plain = open({});
  ASSERT_TRUE(plain);
  const auto of = [&](EngineOptions o) {
    const auto e = open(o);
    EXPECT_TRUE(e);
    return e ? (*e)->info().fingerprint : "";
  };
  EXPECT_EQ(of({.threads = 3, .max_num_seqs = 2, .prefix_caching = false}), (*plain)->info().fingerprint);
  EXPECT_NE(of({.kv_type = KvType::f16}), (*plain)->info().fingerprint);
  EXPECT_NE(of({.isa = "scalar"}), (*plain)->info().fingerprint);
}

TEST_F(Open, ExactPrecisionStoresFloatKeys) {
  const auto e = open({.precision = Precision::exact, .max_model_len = 64});
  ASSERT_TRUE(e) << e.error().message();
  EXPECT_EQ((*e)->info().kv_bytes_per_token, 30 * 2 * 3 * 64 * 4);
  Request r;
  r.id = 1;
  r.prompt = {1, 504, 253};
  r.sampling = {.temperature = 0, .max_tokens = 3, .ignore_eos = true};
  EXPECT_EQ(run_one(**e, std::move(r)).tokens.size(), 3u);
}

}  // namespace
}  // namespace isotope::engine::test
