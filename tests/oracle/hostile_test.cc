// Damaged models: whatever a byte of the header or of config.json is changed to, opening, configuring, loading and one step end in an error or a result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "golden.h"
#include "support/bytes.h"

namespace isotope::oracle {
namespace {

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A file written anew. Truncating an old one instead would make ext4 flush it to the disk each time.
std::string renew(const test::TempDir& dir, const char* name, const std::string& text) {
  std::filesystem::remove(dir.file(name));
  return dir.write(name, text);
}

/// Runs a model as far as it comes; true if it got to logits.
bool try_model(const std::string& path) {
  const auto l = load(path, 64, {.threads = 1, .pin = false});
  if (!l) {
    EXPECT_FALSE(l.error().what.empty());
    return false;
  }
  auto direct = models::Direct::create(*l->model, *l->ops, {.max_len = 8});
  if (!direct) return false;
  const int32_t ids[] = {0, 1, 2};
  const models::Chunk chunk{.tokens = ids};
  return direct->step({&chunk, 1}).has_value();
}

/// One to three bytes of [0, end) changed.
std::string damaged(std::string s, size_t end, std::mt19937& gen) {
  for (uint32_t n = 1 + gen() % 3; n > 0; --n) s[gen() % end] = char(gen());
  return s;
}

TEST(Hostile, GgufHeaders) {
  std::mt19937 gen(1);
  int survived = 0;
  for (const char* family : {"llama_bias_linear", "gemma3", "phi3", "qwen2_moe", "mamba2", "nemotron_h_moe", "kimi_linear"}) {
    const std::string good = content(goldens_folder() + "/" + family + "/model.gguf");
    const size_t header = std::min(good.size(), good.find("blk.0.") + 4000);
    const test::TempDir dir;
    for (int i = 0; i < 300; ++i) survived += try_model(renew(dir, "model.gguf", damaged(good, header, gen)));
    ASSERT_TRUE(try_model(renew(dir, "model.gguf", good)));
  }
  EXPECT_GT(survived, 0);    // most damage hits a token's text
  EXPECT_LT(survived, 2100);
}

/// A tensor that is called something else is missing, and the error says which one.
TEST(Hostile, RenamedTensors) {
  const std::pair<const char*, std::string> cases[] = {
      {"granitemoehybrid", "shared_mlp.input_linear.weight"}, {"granitemoehybrid_dense", "shared_mlp.input_linear.weight"},
      {"nemotron_h", "mixer.up_proj.weight"},                 {"nemotron_h_moe", "mixer.experts.3.up_proj.weight"},
      {"nemotron_h_latent", "mixer.fc1_latent_proj.weight"},  {"falcon_h1_rms", "mamba.norm.weight"},
      {"jamba", "mamba.dt_layernorm.weight"},                 {"kimi_linear", "self_attn.f_b_proj.weight"},
      {"minimax", "self_attn.output_gate.weight"},            {"olmo_hybrid", "linear_attn.k_conv1d.weight"},
      {"bailing_hybrid", "attention.g_proj.weight"},          {"mamba2", "mixer.A_log"},
      {"glm5_next", "indexer.index_kpool_compress_gate"},     {"glm5_next", "hc_attn_scale"},
      {"glm5_next", "self_attn.f_a_proj.weight"},             {"hy_v4", "self_attn.linear_gate.weight"},
      {"hy_v4", "self_attn.learnable_sink_param"},            {"qwen4_exp", "ngram_embedding.shard_2.weight"},
      {"qwen4_exp", "ple.conv1d.weight"},                     {"qwen4_exp", "mlp_hyper_connection.block_inject_weight.weight"},
      {"qwen4_exp", "indexer.index_qk_proj.weight"},
  };
  for (const auto& [family, tensor] : cases) {
    SCOPED_TRACE(std::string(family) + " without " + tensor);
    const std::string folder = goldens_folder() + "/" + family;
    std::string file = content(folder + "/model.safetensors");
    int renamed = 0;
    for (size_t at = file.find(tensor + "\""); at != std::string::npos; at = file.find(tensor + "\"", at), ++renamed) file[at + tensor.size() - 1] = 'x';
    ASSERT_GT(renamed, 0);
    const test::TempDir dir;
    dir.write("config.json", content(folder + "/config.json"));
    dir.write("model.safetensors", file);
    const auto l = load(dir.path(), 64, {.threads = 1, .pin = false});
    ASSERT_FALSE(l);
    EXPECT_THAT(l.error().message(), testing::HasSubstr(tensor));
  }
}

TEST(Hostile, ConfigNumbers) {
  // Each number of config.json in turn becomes something no model has.
  const char* const kValues[] = {"0", "-1", "1", "3", "1e300", "99999999999999999999", "\"x\"", "null", "[]", "[1,2]", "{}", "true", "0.5"};
  for (const char* family : {"gemma3", "phi3", "qwen3_yarn", "granite", "smollm3", "qwen2_moe", "gpt_oss_mxfp4", "qwen3_next", "mamba", "mamba2", "lfm2",
                             "nemotron_h_latent", "falcon_h1_rms", "granitemoehybrid", "jamba", "kimi_linear", "minimax", "olmo_hybrid", "bailing_hybrid",
                             "glm_moe_dsa", "minimax_m3", "deepseek_v4", "glm5_next", "hy_v4", "qwen4_exp"}) {
    const std::string folder = goldens_folder() + "/" + family, config = content(folder + "/config.json");
    const test::TempDir dir;
    std::filesystem::create_symlink(folder + "/model.safetensors", dir.file("model.safetensors"));
    for (size_t at = config.find(": "); at != std::string::npos; at = config.find(": ", at + 1)) {
      const size_t begin = at + 2, end = config.find_first_of(",\n}", begin);
      if (config[begin] == '{' || config[begin] == '[') continue;
      for (const char* v : kValues) {
        std::string changed = config;
        changed.replace(begin, end - begin, v);
        renew(dir, "config.json", changed);
        try_model(dir.path());
      }
    }
  }
}

}  // namespace
}  // namespace isotope::oracle
