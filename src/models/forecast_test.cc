// What a model will take, said before anything is allocated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "models/direct.h"
#include "models/dummy.h"
#include "models/loader.h"
#include "models/planner.h"
#include "support/gguf_writer.h"
#include "weights/summary.h"

namespace isotope::models {
namespace {

using testing::HasSubstr;

/// A mixture of experts out of nothing, planned.
struct Planned {
  std::unique_ptr<ops::Ops> ops;
  std::unique_ptr<Checkpoint> files = *dummy_checkpoint(ISOTOPE_SOURCE_DIR "/tests/oracle/goldens/mixtral", "xavier");
  ModelConfig config = *parse_config(*files);
  const Arch& arch = *arch_by_name(config.arch);
  std::unique_ptr<Transformer> model = arch.make();
  std::unique_ptr<Planner> plan;

  explicit Planned(const std::string& folder = {}) {
    ops = *ops::make_cpu_ops({.threads = 1, .pin = false, .spill_folder = folder});
    model->set_config(config);
    plan = std::make_unique<Planner>(*files, *ops, arch, config);
    EXPECT_TRUE(plan_weights(*plan, arch, *model));
    EXPECT_TRUE(plan->check({}));
  }
  uint64_t packed() const {
    uint64_t n = 0;
    for (const TensorEntry& e : files->tensors()) n += e.rank == 1 ? uint64_t(e.shape[0]) * 4 : ops->packed_bytes(e.dtype, e.shape[0], e.shape[1]);
    return n;
  }
  std::vector<float> logits() {
    EXPECT_TRUE(weights::load_all(*files, plan->take_jobs(), {}));
    auto direct = *Direct::create(*model, *ops, {.max_len = 32, .kv = KvType::f32});
    const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6};
    const Chunk chunk{.tokens = ids, .all_logits = true};
    const ops::Tensor y = *direct.step({&chunk, 1});
    std::vector<float> out;  // row by row: what lies between rows is nobody's
    for (int64_t r = 0; r < y.rows; ++r) out.insert(out.end(), y.row(r), y.row(r) + y.cols);
    return out;
  }
};

// quantization_config decides what stands in for a published checkpoint: formats of an expert, of attention, and of a shared expert or a plain one.
TEST(Forecast, WeightsOutOfNothingKeepTheirQuantizationConfig) {
  using tensor::DType;
  const auto group = [](const char* weights) {
    return std::string(R"({"quant_method": "compressed-tensors", "format": "x", "config_groups": {"group_0": {"targets": ["Linear"], "weights": )") + weights + "}}";
  };
  struct Case {
    std::string config;
    DType expert, attention;
  };
  const Case cases[] = {
      {R"({"quant_method": "fp8", "weight_block_size": [128, 128]})", DType::f8_g32, DType::f8_g32},
      {R"({"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.self_attn"]})", DType::f8_g32, DType::bf16},
      {R"({"quant_method": "fp8", "modules_to_not_convert": ["gate", "lm_head", "mlp.gate"]})", DType::f8_g32, DType::f8_g32},
      {R"({"quant_method": "gptq", "bits": 8, "group_size": 32})", DType::i8_g16, DType::i8_g16},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 32})", DType::i4_g32, DType::i4_g32},
      {R"({"quant_method": "awq", "bits": 4, "group_size": -1})", DType::i4_g32, DType::i4_g32},
      {group(R"({"num_bits": 8, "type": "int", "strategy": "group", "group_size": 32})") + "}", DType::i8_g16, DType::i8_g16},
      {group(R"({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16})") + "}", DType::e2m1_g16, DType::e2m1_g16},
      {group(R"({"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32})") + "}", DType::mxfp4, DType::mxfp4},
      {group(R"({"num_bits": 8, "type": "float", "strategy": "channel"})") + "}", DType::f8_g32, DType::f8_g32},
      {group(R"({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32})") + R"(, "ignore": ["lm_head", "re:.*self_attn.*"]})", DType::i4_g32, DType::bf16},
      {R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["model.layers.0.self_attn*"]})", DType::e2m1_g16, DType::bf16},
      {R"({"quant_method": "modelopt", "quant_algo": "FP8"})", DType::f8_g32, DType::f8_g32},
  };
  test::TempDir dir;
  std::ifstream in(ISOTOPE_SOURCE_DIR "/tests/oracle/goldens/mixtral/config.json");
  const std::string text(std::istreambuf_iterator<char>(in), {});
  for (const Case& c : cases) {
    SCOPED_TRACE(c.config);
    const std::string path = dir.write("config.json", text.substr(0, text.rfind('}')) + R"(, "quantization_config": )" + c.config + "}");
    const auto files = planned_checkpoint(path);
    ASSERT_TRUE(files) << files.error().message();
    const TensorEntry *expert = nullptr, *attention = (*files)->find("model.layers.0.self_attn.q_proj.weight"), *head = (*files)->find("lm_head.weight");
    for (const TensorEntry& t : (*files)->tensors())
      if (t.name.find("layers.0.") != t.name.npos && t.name.find(".experts.0.w1") != t.name.npos) expert = &t;
    ASSERT_TRUE(expert && attention && head);
    EXPECT_EQ(tensor::format(expert->dtype).name, tensor::format(c.expert).name);
    EXPECT_EQ(tensor::format(attention->dtype).name, tensor::format(c.attention).name);
    EXPECT_EQ(head->dtype, DType::bf16);
    EXPECT_TRUE((*files)->read(*expert));
  }
  for (const auto& [config, says] : {std::pair{R"({"quant_method": "fp8", "weight_block_size": [0, 0]})", "weight_block_size"},
                                     {R"({"quant_method": "gptq", "bits": 3})", "3 bits"},
                                     {R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"})", "MIXED_PRECISION"}}) {
    const auto r = dummy_checkpoint(dir.write("config.json", text.substr(0, text.rfind('}')) + R"(, "quantization_config": )" + config + "}"), "zero");
    ASSERT_FALSE(r) << config;
    EXPECT_THAT(r.error().message(), HasSubstr(says));
  }
}

TEST(Forecast, SmallGroupsTakeWhatTheyTake) {
  test::TempDir dir;
  std::ifstream in(ISOTOPE_SOURCE_DIR "/tests/oracle/goldens/mixtral/config.json");
  std::string text(std::istreambuf_iterator<char>(in), {});
  text.resize(text.rfind('}'));
  for (const char* q : {R"("gptq", "bits": 4, "group_size": 32)", R"("gptq", "bits": 4, "group_size": 128)", R"("gptq", "bits": 8, "group_size": 64)",
                        R"("gptq", "bits": 8, "group_size": 128)", R"("fp8", "weight_block_size": [128, 128])"}) {
    SCOPED_TRACE(q);
    const std::string wide = R"(, "hidden_size": 256, "intermediate_size": 128, "quantization_config": {"quant_method": )" + std::string(q) + "}}";
    const auto files = dummy_checkpoint(dir.write("config.json", text + wide), "xavier");
    ASSERT_TRUE(files) << files.error().message();
    const auto ops = *ops::make_cpu_ops({.threads = 1, .pin = false});
    uint64_t all = 0, largest = 0;
    for (const TensorEntry& t : (*files)->tensors()) {
      largest = std::max<uint64_t>(largest, t.bytes);
      const auto data = (*files)->read(t);
      ASSERT_TRUE(data);
      all += t.rank == 1 ? uint64_t(t.shape[0]) * 4 : uint64_t((*ops->pack(data->view))->bytes);
    }
    const ModelConfig config = *parse_config(**files);
    const Arch& arch = *arch_by_name(config.arch);
    const auto model = arch.make();
    model->set_config(config);
    Planner plan(**files, *ops, arch, config);
    ASSERT_TRUE(plan_weights(plan, arch, *model));
    ASSERT_TRUE(plan.check({}));
    const auto enough = plan.forecast({}, all + largest);
    EXPECT_TRUE(enough) << enough.error().message() << " of " << all << " + " << largest;
    EXPECT_FALSE(plan.forecast({}, all + largest - 1));
  }
}

TEST(Forecast, ExpertsOfGptOssAreBlocksOutOfNothingToo) {
  const auto files = dummy_checkpoint(ISOTOPE_SOURCE_DIR "/tests/oracle/goldens/gpt_oss_mxfp4/config.json", "xavier");
  ASSERT_TRUE(files) << files.error().message();
  const TensorEntry *blocks = (*files)->find("model.layers.0.mlp.experts.down_proj_blocks"), *scales = (*files)->find("model.layers.0.mlp.experts.down_proj_scales");
  ASSERT_TRUE(blocks && scales);
  EXPECT_EQ(blocks->bytes, 16 * scales->bytes);
  EXPECT_FALSE((*files)->find("model.layers.0.mlp.experts.down_proj"));
  const weights::Summary sum = weights::summarize(**files);
  const auto mx = std::find_if(sum.types.begin(), sum.types.end(), [](const auto& t) { return t.dtype == tensor::DType::mxfp4; });
  ASSERT_NE(mx, sum.types.end());
  EXPECT_EQ(8 * mx->bytes * 32, mx->elements * 8 * 17) << "4.25 bits a weight";
  const auto config = parse_config(**files);
  ASSERT_TRUE(config);
  const auto ops = *ops::make_cpu_ops({.threads = 1, .pin = false});
  const auto model = load_model(**files, *ops, {}, *config);
  EXPECT_TRUE(model) << model.error().message();
}

TEST(Forecast, WhatFitsGoesOn) {
  Planned p;
  EXPECT_TRUE(p.plan->forecast({}, 0)) << "nobody knows how much is free";
  EXPECT_TRUE(p.plan->forecast({}, uint64_t{1} << 40));
}

TEST(Forecast, WhatDoesNotFitIsRefusedWithNumbersAndRemedies) {
  Planned p;
  const auto little = p.plan->forecast({}, p.packed());
  ASSERT_FALSE(little);
  EXPECT_EQ(little.error().code, Code::resource_exhausted);
  for (const char* s : {"GiB", "are free", "ISOTOPE_EXPERT_FOLDER", "isotope quantize", "--online-quant-config"}) EXPECT_THAT(little.error().message(), HasSubstr(s));
  const auto nothing = p.plan->forecast({.expert_folder = "/tmp"}, 1000);
  ASSERT_FALSE(nothing) << "the rest does not fit either";
  EXPECT_THAT(nothing.error().message(), testing::Not(HasSubstr("ISOTOPE_EXPERT_FOLDER")));
}

TEST(Forecast, AFolderForExpertsIsLookedAtFirst) {
  Planned p;
  for (const auto& [folder, says] : {std::pair{"/no/such/folder", "No such file"}, {"/dev/null", "no folder"}, {"/proc", "are free there"}}) {
    const auto r = p.plan->forecast({.expert_folder = folder}, p.packed());
    ASSERT_FALSE(r) << folder;
    for (const char* s : {says, folder, "ISOTOPE_EXPERT_FOLDER"}) EXPECT_THAT(r.error().message(), HasSubstr(s));
    EXPECT_FALSE(r.error().remedy.empty());
  }
}

TEST(Forecast, ExpertsInFilesGiveTheSameBits) {
  Planned in_memory, in_files("/tmp");
  ASSERT_TRUE(in_files.plan->forecast({.expert_folder = "/tmp"}, in_files.packed()));
  const auto want = in_memory.logits(), got = in_files.logits();
  EXPECT_EQ(got, want);
  EXPECT_GT(*std::max_element(want.begin(), want.end()), 0);
}

}  // namespace
}  // namespace isotope::models
