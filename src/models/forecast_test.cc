// What a model will take, said before anything is allocated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/direct.h"
#include "models/dummy.h"
#include "models/loader.h"
#include "models/planner.h"

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
