// Every family against transformers: logits, greedy continuation and the state after each layer, from each container. Exact arithmetic (float32), so the
// tolerance is that of another order of sums (meta.json says how it was measured).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "golden.h"
#include "support/bytes.h"

namespace isotope::oracle {
namespace {

struct Case {
  std::string family, file;  ///< file: "" = the folder, else a GGUF file in it, or config.v5.json instead of config.json
};
constexpr const char* kV5 = "config.v5.json";

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const std::string& f : families()) {
    out.push_back({f, ""});
    for (const char* file : {"model.gguf", kV5})
      if (std::filesystem::exists(goldens_folder() + "/" + f + "/" + file)) out.push_back({f, file});
  }
  return out;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.family + (info.param.file.empty() ? "_safetensors" : info.param.file == kV5 ? "_v5" : "_gguf");
}

class Oracle : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    golden_ = read_golden(GetParam().family);
    const std::string folder = std::filesystem::absolute(goldens_folder() + "/" + GetParam().family).string();
    path_ = folder + "/" + GetParam().file;
    if (GetParam().file != kV5) return;
    path_ = dir_.path();
    std::filesystem::create_symlink(folder + "/" + kV5, dir_.file("config.json"));
    std::filesystem::create_symlink(folder + "/model.safetensors", dir_.file("model.safetensors"));
  }
  Loaded open(int64_t served_len) {
    auto l = load(path_, served_len, {.threads = 2, .precision = Precision::exact, .pin = false});
    EXPECT_TRUE(l) << l.error().message();
    return l ? *std::move(l) : Loaded{};
  }
  Golden golden_;
  std::string path_;
  test::TempDir dir_;
};

float largest_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  float d = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) d = std::isfinite(a[i]) ? std::max(d, std::abs(a[i] - b[i])) : INFINITY;
  return d;
}

TEST_P(Oracle, LogitsAndGreedyTokens) {
  for (const Prompt& p : golden_.prompts) {
    SCOPED_TRACE(testing::Message() << p.ids.size() << " tokens");
    const int64_t total = int64_t(p.ids.size() + p.greedy.size());
    const Loaded l = open(total);
    ASSERT_TRUE(l.model);
    auto direct = models::Direct::create(*l.model, *l.ops, {.max_len = total, .kv = KvType::f32});
    ASSERT_TRUE(direct) << direct.error().message();
    std::vector<float> logits;  // [total, V]
    const auto feed = [&](std::span<const int32_t> ids) {
      const models::Chunk chunk{.tokens = ids, .all_logits = true};
      const auto t = direct->step({&chunk, 1});
      ASSERT_TRUE(t) << t.error().message();
      for (int64_t r = 0; r < t->rows; ++r) logits.insert(logits.end(), t->row(r), t->row(r) + t->cols);
    };
    feed(p.ids);
    const size_t vocab = size_t(l.model->config().vocab);
    bool certain = true;  // until a step whose margin leaves room for another token
    for (size_t i = 0; i < p.greedy.size() && !HasFatalFailure(); ++i) {
      certain = certain && p.margin[i] > 2 * p.tolerance;
      if (certain) { EXPECT_EQ(models::argmax(std::span(logits).last(vocab)), p.greedy[i]) << "greedy step " << i; }
      feed(std::span(p.greedy).subspan(i, 1));
    }
    for (size_t j = 0; j < p.rows.size(); ++j) {
      const auto got = std::span(logits).subspan(size_t(p.rows[j]) * vocab, vocab);
      ASSERT_LE(largest_difference(got, std::span(p.logits).subspan(j * vocab, vocab)), p.tolerance) << "row " << p.rows[j];
    }
  }
}

TEST_P(Oracle, HiddenStates) {
  const Prompt& p = golden_.prompts[Golden::kHiddenPrompt];
  const int64_t total = int64_t(p.ids.size());
  const Loaded l = open(total);
  ASSERT_TRUE(l.model);
  auto direct = models::Direct::create(*l.model, *l.ops, {.max_len = total, .kv = KvType::f32});
  ASSERT_TRUE(direct) << direct.error().message();
  std::vector<std::vector<float>> hidden(golden_.hidden.size());
  const models::HiddenTap tap = [&](int i, ops::Tensor t) {
    ASSERT_LT(size_t(i), hidden.size());
    for (int64_t r = 0; r < t.rows; ++r) hidden[size_t(i)].insert(hidden[size_t(i)].end(), t.row(r), t.row(r) + t.cols);
  };
  const models::Chunk chunk{.tokens = p.ids};
  ASSERT_TRUE(direct->step({&chunk, 1}, &tap));
  ASSERT_EQ(int64_t(golden_.hidden.size()), l.model->config().layers + 1);
  // The yardstick of the logits, relative to the largest: another order of sums stays well below a fourth of it.
  float largest = 1;
  for (float v : p.logits) largest = std::max(largest, std::abs(v));
  const float relative = std::max(1e-5f, float(p.tolerance) / largest / 4);
  for (size_t i = 0; i < hidden.size(); ++i) {
    float size = 1;
    for (float v : golden_.hidden[i]) size = std::max(size, std::abs(v));
    EXPECT_LE(largest_difference(hidden[i], golden_.hidden[i]), relative * size) << "hidden " << i;
  }
}

/// `text` without each `what`, and as long as before: a header of safetensors may end in spaces.
std::string without(std::string text, const std::string& what) {
  const size_t size = text.size();
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what)) text.erase(at, what.size());
  text.resize(size, ' ');
  return text;
}

/// Kimi K2 is Kimi K2.5's text model without the wrapper, under a model_type of its own.
TEST(KimiK2, IsTheTextModelOfKimiK25) {
  const std::string folder = goldens_folder() + "/kimi_k25";
  const auto content = [](const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  auto config = nlohmann::json::parse(content(folder + "/config.json"))["text_config"];
  config["architectures"] = {"DeepseekV3ForCausalLM"};
  config["model_type"] = "kimi_k2";
  std::string weights = content(folder + "/model.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, weights.data(), sizeof header);
  weights.replace(8, header, without(weights.substr(8, header), "language_model."));
  const test::TempDir dir;
  dir.write("config.json", config.dump());
  dir.write("model.safetensors", weights);
  const std::vector<int32_t> ids = read_golden("kimi_k25").prompts[1].ids;
  std::vector<std::vector<float>> logits;
  for (const std::string& path : {folder, dir.path()}) {
    const auto l = load(path, 0, {.threads = 1, .precision = Precision::exact, .pin = false});
    ASSERT_TRUE(l) << l.error().message();
    auto direct = models::Direct::create(*l->model, *l->ops, {.max_len = 64, .kv = KvType::f32});
    const models::Chunk chunk{.tokens = ids, .all_logits = true};
    const auto t = direct->step({&chunk, 1});
    ASSERT_TRUE(t) << t.error().message();
    logits.emplace_back();
    for (int64_t r = 0; r < t->rows; ++r) logits.back().insert(logits.back().end(), t->row(r), t->row(r) + t->cols);
  }
  EXPECT_EQ(logits[0], logits[1]);
}

/// transformers reads the streams of Hunyuan 4 with a prefix in front, before the last part, and without it.
TEST(HyV4, StreamsHaveTheirPrefixAnywhere) {
  const std::string folder = goldens_folder() + "/hy_v4";
  const auto content = [](const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string weights = content(folder + "/model.safetensors");
  uint64_t size = 0;
  std::memcpy(&size, weights.data(), sizeof size);
  const std::string header = weights.substr(8, size);
  std::string within = header;
  for (const char* part : {"hc_attn_layer.", "hc_mlp_layer.", "hc_head."})
    for (const std::string from = std::string("hc_pre.") + part, to = std::string(part) + "hc_pre."; within.find(from) != std::string::npos;)
      within.replace(within.find(from), from.size(), to);
  for (const std::string& names : {within, without(header, "hc_pre.")}) {
    const test::TempDir dir;
    dir.write("config.json", content(folder + "/config.json"));
    dir.write("model.safetensors", weights.substr(0, 8) + names + weights.substr(8 + size));
    const auto l = load(dir.path(), 0, {.threads = 1, .pin = false});
    EXPECT_TRUE(l) << l.error().message();
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Oracle, testing::ValuesIn(cases()), case_name);

class OracleHeads : public Oracle {
 protected:
  /// GGUF files have the heads that llama.cpp's converter keeps.
  int expected_heads() const {
    if (!GetParam().file.ends_with(".gguf")) return int(golden_.prompts[0].draft_logits.size());
    const auto c = weights::open_checkpoint(path_, {});
    EXPECT_TRUE(c) << c.error().message();
    return int(std::count_if((*c)->tensors().begin(), (*c)->tensors().end(), [](const auto& t) { return t.name.ends_with("nextn.eh_proj.weight"); }));
  }
};

TEST_P(OracleHeads, LogitsOfMultiTokenPrediction) {
  const int heads = expected_heads();
  for (const Prompt& p : golden_.prompts) {
    SCOPED_TRACE(testing::Message() << p.ids.size() << " tokens");
    const Loaded l = open(int64_t(p.ids.size() + p.greedy.size()));
    ASSERT_TRUE(l.model);
    ASSERT_EQ(l.model->draft_heads(), heads);
    if (heads == 0) return;  // the converter leaves out those of this family
    auto direct = models::Direct::create(*l.model, *l.ops, {.max_len = int64_t(p.ids.size()), .kv = KvType::f32});
    ASSERT_TRUE(direct) << direct.error().message();
    std::vector<int32_t> ids = p.ids;
    ids.insert(ids.end(), p.greedy.begin(), p.greedy.end());
    const size_t vocab = size_t(l.model->config().vocab);
    const auto row = [&](const std::vector<float>& v, size_t r) { return std::span(v).subspan(r * vocab, vocab); };
    models::Chunk chunk{.tokens = p.ids, .all_logits = true};
    ops::Tensor state;
    const auto own = direct->step_for_drafts({&chunk, 1}, state);
    ASSERT_TRUE(own) << own.error().message();
    const std::vector<float> logits = rows_of(*own);
    for (size_t j = 0; j < p.rows.size() && size_t(p.rows[j]) < p.ids.size(); ++j)
      ASSERT_LE(largest_difference(row(logits, size_t(p.rows[j])), row(p.logits, j)), p.tolerance) << "the model's own, row " << p.rows[j];
    std::vector<float> hidden = rows_of(state);
    for (int h = 0; h < heads; ++h) {
      chunk.tokens = std::span(ids).subspan(size_t(h) + 1, p.ids.size());
      const auto r = direct->draft({&chunk, 1}, {.head = h, .hidden = as_tensor(hidden, l.model->draft_width()), .all_rows = true});
      ASSERT_TRUE(r) << r.error().message();
      const std::vector<float> got = rows_of(r->logits);
      ASSERT_EQ(got.size(), p.ids.size() * vocab);
      for (size_t j = 0; j < p.draft_rows.size(); ++j)
        ASSERT_LE(largest_difference(row(got, size_t(p.draft_rows[j])), row(p.draft_logits[size_t(h)], j)), p.draft_tolerance)
            << "head " << h << ", row " << p.draft_rows[j];
      hidden = rows_of(r->hidden);
    }
  }
}

std::vector<Case> cases_with_heads() {
  std::vector<Case> out = cases();
  const std::vector<std::string> some = families_with_heads();
  std::erase_if(out, [&](const Case& c) { return std::find(some.begin(), some.end(), c.family) == some.end(); });
  return out;
}
INSTANTIATE_TEST_SUITE_P(Families, OracleHeads, testing::ValuesIn(cases_with_heads()), case_name);

}  // namespace
}  // namespace isotope::oracle
