#include "weights/online.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"
#include "weights/eligible.h"
#include "weights/load_all.h"

namespace isotope::weights {
namespace {

using tensor::DType;
using testing::HasSubstr;

/// Layers with the names that matter, in bfloat16.
struct Folder {
  test::TempDir dir;
  Folder() {
    dir.write("config.json", R"({"architectures": ["LlamaForCausalLM"]})");
    test::SafetensorsWriter w;
    std::mt19937 rng(1);
    std::normal_distribution<float> normal(0, 0.02f);
    for (const auto& [name, n, k] : {std::tuple{"model.embed_tokens.weight", 64, 256}, {"lm_head.weight", 64, 256}, {"model.layers.0.self_attn.q_proj.weight", 192, 256},
                                     {"model.layers.0.mlp.gate.weight", 8, 256}, {"model.layers.0.mlp.experts.0.up_proj.weight", 136, 256},
                                     {"model.layers.0.mlp.experts.1.up_proj.weight", 136, 256}, {"model.layers.0.mlp.odd_proj.weight", 16, 40}}) {
      std::vector<float> v(size_t(n * k));
      for (float& x : v) x = normal(rng);
      v[5] = 0.3f;
      w.tensor(name, {n, k}, DType::bf16, v);
    }
    w.tensor("model.norm.weight", {256}, DType::bf16, std::vector<float>(256, 1.0f));
    dir.write("model.safetensors", w.bytes());
  }
  std::unique_ptr<Checkpoint> open() const { return *open_checkpoint(dir.path(), {}); }
};

std::vector<float> values(const Checkpoint& c, const std::string& name) {
  const auto d = c.read(*c.find(name));
  EXPECT_TRUE(d) << d.error().message();
  std::vector<float> v(size_t(d->view.elements()));
  EXPECT_TRUE(tensor::dequantize(d->view.dtype, d->view.data, v));
  return v;
}

constexpr const char* kQ = "model.layers.0.self_attn.q_proj.weight";

TEST(Online, RulesDecideInTheirOrder) {
  const Folder f;
  const auto c = quantize_online(f.open(), R"({"global_quant_config": "ptpc_fp8", "layer_quant_config": {"*experts.1*": "mxfp4", "*experts*": "int4"},
                                              "exclude_layer": ["*.odd_proj"]})");
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ((*c)->find(kQ)->dtype, DType::f8_g32);
  EXPECT_EQ((*c)->find("model.layers.0.mlp.experts.0.up_proj.weight")->dtype, DType::i4_g32);
  EXPECT_EQ((*c)->find("model.layers.0.mlp.experts.1.up_proj.weight")->dtype, DType::mxfp4);
  for (const char* plain : {"model.embed_tokens.weight", "lm_head.weight", "model.layers.0.mlp.gate.weight", "model.layers.0.mlp.odd_proj.weight", "model.norm.weight"})
    EXPECT_EQ((*c)->find(plain)->dtype, DType::bf16) << plain;
  EXPECT_EQ(static_cast<const OnlineCheckpoint&>(**c).quantized(), 3);
}

TEST(Online, AnExcludedModuleStays) {
  const Folder f;
  const auto c = quantize_online(f.open(), R"({"global_quant_config": "int8", "exclude_layer": "*.q_proj"})");
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ((*c)->find(kQ)->dtype, DType::bf16);
  EXPECT_THAT(static_cast<const OnlineCheckpoint&>(**c).summary(), HasSubstr("odd_proj"));  // its rows fill no groups
}

// Errors of each scheme, as parts of the largest value of a scale's group: half a step.
TEST(Online, StaysWithinHalfAStep) {
  const Folder f;
  const auto plain = f.open();
  const std::vector<float> want = values(*plain, kQ);
  for (const Scheme& s : schemes()) {
    const auto c = quantize_online(f.open(), R"({"global_quant_config": ")" + std::string(s.name) + R"("})");
    ASSERT_TRUE(c) << c.error().message();
    const std::vector<float> got = values(**c, kQ);
    const int64_t columns = s.columns ? s.columns : 256;
    for (size_t i = 0; i < want.size(); i += size_t(columns)) {
      float top = 0;
      if (s.rows > 1) top = 0.3f;  // a block's largest may lie in another row
      for (int64_t j = 0; j < columns; ++j) top = std::max(top, std::fabs(want[i + size_t(j)]));
      for (size_t j = i; j < i + size_t(columns); ++j) {
        const float w = std::fabs(want[j]);
        // E4M3 has four bits of precision, E2M1 two; above its topmost binade's 1.5 the largest is cut.
        const float bound = s.layout == Layout::floats8 ? std::max(w / 16, top / 448 / 512) : s.layout == Layout::bytes ? top / 254 : s.layout == Layout::fp4 ? std::max(w / 4, top / 8) : top / 14;
        ASSERT_LE(std::fabs(got[j] - want[j]), bound * 1.01f) << s.name << " element " << j << ": " << got[j] << " for " << want[j];
      }
    }
  }
}

/// GGUF's stacks of experts: each row as if its matrix stood alone.
TEST(Online, StacksOfExpertsAreQuantizedMatrixByMatrix) {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> v(3 * 160 * 128);
  for (float& x : v) x = normal(rng);
  const std::vector<int64_t> one = {160, 128};
  const test::TempDir dir;
  test::GgufWriter w;
  w.string("general.architecture", "llama").tensor("blk.0.ffn_up_exps.weight", {3, 160, 128}, DType::f16, v);
  for (size_t i = 0; i < 3; ++i) w.tensor("blk." + std::to_string(i) + ".ffn_up.weight", one, DType::f16, std::span(v).subspan(i * 160 * 128, 160 * 128));
  const std::string path = dir.write("m.gguf", w.bytes());
  for (const Scheme& s : schemes()) {
    const auto c = quantize_online(*open_checkpoint(path, {}), R"({"global_quant_config": ")" + std::string(s.name) + R"("})");
    ASSERT_TRUE(c) << c.error().message();
    EXPECT_EQ(static_cast<const OnlineCheckpoint&>(**c).quantized(), 4) << s.name;
    const auto all = values(**c, "blk.0.ffn_up_exps.weight");
    for (size_t i = 0; i < 3; ++i) {
      const auto alone = values(**c, "blk." + std::to_string(i) + ".ffn_up.weight");
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + ptrdiff_t(i * alone.size()))) << s.name << " matrix " << i;
    }
  }
}

TEST(Online, WrongWishesAreNamed) {
  const Folder f;
  const struct {
    const char *config, *says;
  } cases[] = {{"x", "no JSON object"},
               {R"({"global_quant_config": "mxi4"})", "mxi4"},
               {R"({"global_quant_config": "mxi4"})", "ptpc_fp8"},
               {R"({"global_quant": "fp8"})", "global_quant"},
               {R"({"layer_quant_config": []})", "layer_quant_config"},
               {R"({"layer_quant_config": {"*": 3}})", "layer_quant_config['*']"},
               {R"({"global_quant_config": "fp8", "exclude_layer": [1]})", "exclude_layer"},
               {R"({"global_quant_config": "fp8", "exclude_layer": ["re:("]})", "'re:(' is no regular expression"},
               {R"({"layer_quant_config": {"re:[a": "int8"}})", "'re:[a' is no regular expression"},
               {R"({"global_quant_config": "fp8", "exclude_layer": ["*"]})", "no matrix"},
               {R"({})", "no matrix"}};
  for (const auto& c : cases) {
    const auto r = quantize_online(f.open(), c.config);
    ASSERT_FALSE(r) << c.config;
    EXPECT_EQ(r.error().code, Code::invalid_argument) << c.config;
    EXPECT_THAT(r.error().message(), HasSubstr(c.says)) << c.config;
    EXPECT_FALSE(r.error().remedy.empty());
  }
}

TEST(Online, PatternsFitModules) {
  EXPECT_TRUE(names_module("lm_head", "lm_head.weight"));
  EXPECT_TRUE(names_module("*.gate.*", "model.layers.0.mlp.gate.weight"));
  EXPECT_TRUE(names_module("re:.*up_proj", "a.up_proj.weight"));
  EXPECT_FALSE(names_module("re:up_proj", "a.up_proj.weight"));
  EXPECT_FALSE(names_module("re:(", "a.weight"));
  EXPECT_FALSE(names_module("lm_head", "model.lm_head.weight"));
}

/// Bytes of all tensors that a load hands out, and what its report says.
LoadReport load(const Checkpoint& c, const levers::Loading& l, std::map<std::string, std::string>& bytes, const std::string& fails_at = {}) {
  std::mutex mutex;
  std::vector<LoadJob> jobs;
  for (const TensorEntry& e : c.tensors())
    jobs.push_back({{&e}, [&, name = e.name](std::span<Checkpoint::Data> d) -> Result<void> {
                      if (name == fails_at) return fail(Code::internal, "broken on purpose");
                      const std::lock_guard lock(mutex);
                      bytes[name] = {static_cast<const char*>(d[0].view.data), d[0].view.bytes};
                      return {};
                    }});
  auto r = load_all(c, std::move(jobs), l);
  EXPECT_EQ(bool(r), fails_at.empty());
  if (!r) EXPECT_THAT(r.error().message(), HasSubstr("broken on purpose"));
  return r ? *r : LoadReport{};
}

TEST(Streaming, SettingsChangeHowAndNeverWhat) {
  const Folder f;
  const auto c = *quantize_online(f.open(), R"({"global_quant_config": "int4"})");
  std::map<std::string, std::string> want;
  const LoadReport plain = load(*c, {}, want);
  EXPECT_EQ(plain.quantized, 3);
  EXPECT_EQ(plain.streamed, 0);
  EXPECT_THAT(describe(plain), HasSubstr("3 matrices quantized after the load"));
  for (const int threads : {0, 1, 3})
    for (const bool staging : {true, false}) {
      std::map<std::string, std::string> got;
      const LoadReport r = load(*c, {.num_threads = 4, .online_quant_streaming = true, .online_quant_host_staging = staging, .online_quant_threads = threads}, got);
      EXPECT_EQ(got, want);
      EXPECT_EQ(r.streamed, 3);
      EXPECT_EQ(r.stream_threads, threads);
      EXPECT_LE(r.most_in_flight, threads ? 2 * threads : 4);
      if (!staging) EXPECT_EQ(r.threads, 1) << "the walk is single-threaded";
      EXPECT_THAT(describe(r), HasSubstr("3 of 3 matrices quantized during the load"));
    }
}

TEST(Streaming, AWorkersErrorEndsTheLoad) {
  const Folder f;
  const auto c = *quantize_online(f.open(), R"({"global_quant_config": "int8"})");
  for (const int threads : {0, 2}) {
    std::map<std::string, std::string> got;
    load(*c, {.online_quant_streaming = true, .online_quant_threads = threads}, got, kQ);
  }
}

}  // namespace
}  // namespace isotope::weights
