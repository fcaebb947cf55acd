#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "models/direct.h"
#include "models/dummy.h"
#include "models/engram_vocab.h"
#include "models/model.h"
#include "models/to_gguf.h"
#include "support/bytes.h"
#include "support/gguf_writer.h"
#include "text/token_texts.h"
#include "weights/convert.h"
#include "weights/online.h"
#include "weights/quantize_types.h"

namespace isotope::weights {
namespace {

using tensor::DType;
using testing::HasSubstr;
namespace fs = std::filesystem;

const std::string kGoldens = ISOTOPE_SOURCE_DIR "/tests/oracle/goldens/";

/// Logits of a few tokens.
Result<std::vector<float>> logits(const Checkpoint& c, Precision precision = Precision::exact, const levers::Loading& levers = {}) {
  ISO_TRY(models::ModelConfig config, models::parse_config(c));
  ISO_CHECK_OK(models::resolve_engram(config.engram, config.vocab, c.vocab(), text::read_token_texts, {.cache_dir = ""}, true));
  ISO_TRY(const auto ops, ops::make_cpu_ops({.threads = 1, .precision = precision, .pin = false}));
  ISO_TRY(const auto model, models::load_model(c, *ops, levers, config));
  ISO_TRY(auto direct, models::Direct::create(*model, *ops, {.max_len = 64, .kv = KvType::f32}));
  std::vector<int32_t> ids;
  for (int i = 0; i < 20; ++i) ids.push_back(int32_t((i * 37 + 5) % config.vocab));
  const models::Chunk chunk{.tokens = ids, .all_logits = true};
  ISO_TRY(const ops::Tensor y, direct.step({&chunk, 1}));
  std::vector<float> out;
  for (int64_t r = 0; r < y.rows; ++r) out.insert(out.end(), y.row(r), y.row(r) + y.cols);
  return out;
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) ab += double(a[i]) * b[i], aa += double(a[i]) * a[i], bb += double(b[i]) * b[i];
  return ab / std::sqrt(aa * bb);
}

/// A model as a GGUF file of that type.
Result<std::unique_ptr<Checkpoint>> written(const Checkpoint& c, models::GgufModel m, std::string_view type, const std::string& path) {
  TypeOptions o{.type = file_type_by_name(type), .layers = m.layers, .experts = m.experts, .tied = m.tied};
  for (Conversion& t : m.tensors) {
    ISO_TRY(const TypeChoice choice, type_of(o, t.as.name, t.as.shape, t.as.dtype));
    t.as.dtype = choice.dtype;
  }
  ISO_TRY(auto file, base::OutputFile::create(path, "test"));
  ISO_CHECK_OK(write_gguf(c, m.values, m.tensors, std::move(file), {.threads = 2}));
  return open_checkpoint(path, {});
}

class FromFolder : public testing::TestWithParam<const char*> {};

TEST_P(FromFolder, TheFileSaysWhatTheFolderSays) {
  const test::TempDir dir;
  const auto folder = open_checkpoint(kGoldens + GetParam(), {});
  ASSERT_TRUE(folder) << folder.error().message();
  auto m = models::to_gguf(**folder);
  ASSERT_TRUE(m) << m.error().message();
  const auto file = written(**folder, *std::move(m), "F32", dir.file("m.gguf"));
  ASSERT_TRUE(file) << file.error().message();
  const auto want = logits(**folder), got = logits(**file);
  ASSERT_TRUE(want) << want.error().message();
  ASSERT_TRUE(got) << got.error().message();
  ASSERT_EQ(got->size(), want->size());
  // The same weights; a rope law that went through float32 divisors may differ in the last bits of an angle.
  float top = 0, worst = 0;
  for (size_t i = 0; i < want->size(); ++i) top = std::max(top, std::fabs((*want)[i])), worst = std::max(worst, std::fabs((*want)[i] - (*got)[i]));
  EXPECT_LE(worst, 1e-4f * top);
}

INSTANTIATE_TEST_SUITE_P(Families, FromFolder,
                         testing::Values("llama", "llama2", "llama32_tied", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "gemma3_4b", "mixtral", "qwen3_moe",
                                         "mistral_nemo", "llama_bias_linear"),
                         [](const auto& info) { return std::string(info.param); });

TEST(FromFolder, FamiliesWithoutAConversionAreNamed) {
  const auto folder = open_checkpoint(kGoldens + "mamba", {});
  ASSERT_TRUE(folder);
  const auto m = models::to_gguf(**folder);
  ASSERT_FALSE(m);
  EXPECT_THAT(m.error().message(), HasSubstr("mamba"));
  EXPECT_THAT(m.error().message(), HasSubstr("qwen3moe"));
}

// ---- field report X06: rows that blocks do not divide -------------------------------------------------------------------------

std::string odd_model(int64_t hidden, int64_t ffn) {
  test::GgufWriter w;
  w.string("general.architecture", "llama").u32("llama.block_count", 1).u32("llama.context_length", 64).u32("llama.embedding_length", uint32_t(hidden));
  w.u32("llama.feed_forward_length", uint32_t(ffn)).u32("llama.attention.head_count", 2).u32("llama.attention.head_count_kv", 2);
  w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f).u32("llama.rope.dimension_count", uint32_t(hidden / 2));
  std::mt19937 rng(5);
  const auto add = [&](const char* name, std::vector<int64_t> shape) {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    std::normal_distribution<float> d(0, shape.size() == 1 ? 0 : 1 / std::sqrt(float(shape.back())));
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = (shape.size() == 1 ? 1 : 0) + d(rng);
    w.tensor(name, shape, shape.size() == 1 ? DType::f32 : DType::f16, v);
  };
  add("token_embd.weight", {40, hidden}), add("output_norm.weight", {hidden}), add("output.weight", {40, hidden});
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) add(("blk.0." + std::string(name) + ".weight").c_str(), {hidden, hidden});
  add("blk.0.ffn_gate.weight", {ffn, hidden}), add("blk.0.ffn_up.weight", {ffn, hidden}), add("blk.0.ffn_down.weight", {hidden, ffn});
  add("blk.0.attn_norm.weight", {hidden}), add("blk.0.ffn_norm.weight", {hidden});
  return w.bytes();
}

models::GgufModel as_it_is(const Checkpoint& c) {
  models::GgufModel m{.layers = 1, .tied = false};
  for (const std::string& key : c.metadata().keys()) m.values.put(key, *c.metadata().gguf(key));
  for (const TensorEntry& e : c.tensors()) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < e.rank; ++i) rows *= e.shape[size_t(i)];
    m.tensors.push_back({.as = {e.name, std::vector<int64_t>(e.shape.begin(), e.shape.begin() + e.rank), e.dtype}, .from = {{.tensor = &e, .rows = rows}}});
  }
  return m;
}

TEST(OddRows, EveryTypeFallsBackAndLoads) {
  for (const auto& [hidden, ffn] : {std::pair<int64_t, int64_t>{64, 172}, {192, 2688}, {128, 4544}, {256, 512}}) {
    const test::TempDir dir;
    const auto source = open_checkpoint(dir.write("f16.gguf", odd_model(hidden, ffn)), {});
    ASSERT_TRUE(source) << source.error().message();
    const auto want = logits(**source);
    ASSERT_TRUE(want) << want.error().message();
    // Random weights forgive nothing: rounding to 4 bits leaves an error of a tenth in each product (measured: 0.953, 0.985, 0.997).
    for (const FileType& type : file_types()) {
      const double bits = 8.0 * tensor::format(type.main).bytes / tensor::format(type.main).block, close = bits <= 5 ? 0.94 : bits < 6.2 ? 0.975 : 0.994;
      SCOPED_TRACE(std::string(type.name) + " " + std::to_string(hidden) + " " + std::to_string(ffn));
      const auto file = written(**source, as_it_is(**source), type.name, dir.file("q.gguf"));
      ASSERT_TRUE(file) << file.error().message();
      for (const TensorEntry& e : (*file)->tensors()) EXPECT_EQ(e.shape[size_t(e.rank - 1)] % tensor::format(e.dtype).block, 0) << e.name;
      for (const Precision precision : {Precision::exact, Precision::fast}) {
        const auto got = logits(**file, precision);
        ASSERT_TRUE(got) << got.error().message();
        EXPECT_GT(cosine(*got, *want), close);
      }
    }
  }
}

TEST(OddRows, AWishedTypeFallsBackAsWell) {
  TypeOptions o{.type = file_type_by_name("Q4_K_M"), .layers = 2};
  o.by_name = {{"blk.*.ffn_up.weight", DType::q6_k}, {"*attn_q*", DType::q8_0}};
  const int64_t fits[] = {64, 256}, odd[] = {64, 2688}, tiny[] = {64, 172};
  EXPECT_EQ(type_of(o, "blk.0.ffn_up.weight", fits, DType::f16)->dtype, DType::q6_k);
  EXPECT_EQ(type_of(o, "blk.0.ffn_up.weight", odd, DType::f16)->dtype, DType::q8_0);
  EXPECT_EQ(type_of(o, "blk.0.ffn_up.weight", tiny, DType::f16)->dtype, DType::f16);
  EXPECT_EQ(type_of(o, "blk.0.attn_q.weight", tiny, DType::f16)->dtype, DType::f16);
  EXPECT_FALSE(type_of(o, "blk.0.ffn_up.weight", odd, DType::f16)->why.empty());
}

// ---- online quantization ------------------------------------------------------------------------------------------------------

/// A folder of the oracle with wider rows: the goldens' own are too narrow for groups of 128.
std::unique_ptr<Checkpoint> wide() {
  static const test::TempDir* const dir = [] {
    auto* d = new test::TempDir;
    d->write("config.json", R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 384, "num_hidden_layers": 2, "num_attention_heads": 4,
                               "num_key_value_heads": 2, "vocab_size": 96, "max_position_embeddings": 128, "tie_word_embeddings": false})");
    return d;
  }();
  auto c = models::dummy_checkpoint(dir->path(), "xavier");
  EXPECT_TRUE(c) << c.error().message();
  return c ? *std::move(c) : nullptr;
}

class Schemes : public testing::TestWithParam<std::string> {};
std::vector<std::string> scheme_list() {
  std::vector<std::string> out;
  for (const Scheme& s : schemes()) out.emplace_back(s.name);
  return out;
}

std::string config_of(const std::string& scheme) { return R"({"global_quant_config": ")" + scheme + R"("})"; }

/// The same quantization by files and on the way: every tensor and every logit, bit for bit.
TEST_P(Schemes, OnlineEqualsTheFilesQuantizedTheSameWay) {
  const test::TempDir dir;
  const auto plain = wide();
  ASSERT_TRUE(plain);
  const Scheme* const scheme = scheme_by_name(GetParam());
  std::vector<SchemeChoice> choices;
  const auto online = quantize_online(wide(), config_of(GetParam()));
  ASSERT_TRUE(online) << online.error().message();
  const auto& o = static_cast<const OnlineCheckpoint&>(**online);
  for (const TensorEntry& e : plain->tensors()) choices.push_back({&e, o.converts(*o.find(e.name)) ? scheme : nullptr});
  ASSERT_TRUE(write_safetensors_folder(*plain, choices, dir.path(), 100'000, {.threads = 2}));
  EXPECT_TRUE(fs::exists(dir.file("model.safetensors.index.json"))) << "small shards, several files";
  const char* const method = R"(, "quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": )";
  dir.write("config.json", std::string(R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 384, "num_hidden_layers": 2,
                               "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 96, "max_position_embeddings": 128, "tie_word_embeddings": false)") +
                               method + std::to_string(scheme->bits) + "}}}}}");
  const auto files = open_checkpoint(dir.path(), {});
  ASSERT_TRUE(files) << files.error().message();
  int quantized = 0;
  for (const TensorEntry& e : o.tensors()) {
    const TensorEntry* const f = (*files)->find(e.name);
    ASSERT_TRUE(f) << e.name;
    ASSERT_EQ(f->dtype, e.dtype) << e.name;
    ASSERT_EQ(f->bytes, e.bytes) << e.name;
    const auto a = o.read(e), b = (*files)->read(*f);
    ASSERT_TRUE(a && b);
    EXPECT_EQ(std::memcmp(a->view.data, b->view.data, e.bytes), 0) << e.name;
    quantized += o.converts(e);
  }
  EXPECT_EQ(quantized, 14);
  for (const Precision precision : {Precision::exact, Precision::fast}) EXPECT_EQ(*logits(o, precision), *logits(**files, precision));
  EXPECT_GT(cosine(*logits(*plain), *logits(o)), scheme->bits == 8 ? 0.994 : scheme->layout == Layout::fp4 ? 0.92 : 0.97);
}
INSTANTIATE_TEST_SUITE_P(All, Schemes, testing::ValuesIn(scheme_list()), [](const auto& info) { return info.param; });

/// ATOM_ONLINE_QUANT_STREAMING and what belongs to it: other ways, the same bits.
TEST(Streaming, EverySettingGivesTheSameModel) {
  const auto online = [&] { return *quantize_online(wide(), config_of("int4_g64")); };
  const auto want = logits(*online());
  ASSERT_TRUE(want) << want.error().message();
  for (const int threads : {0, 1, 4})
    for (const bool staging : {true, false})
      for (const int walkers : {1, 4}) {
        const levers::Loading l{.num_threads = walkers, .online_quant_streaming = true, .online_quant_host_staging = staging, .online_quant_threads = threads};
        const auto got = logits(*online(), Precision::exact, l);
        ASSERT_TRUE(got) << got.error().message();
        EXPECT_EQ(*got, *want) << threads << staging << walkers;
      }
}

// ---- multi-token-prediction heads ------------------------------------------------------------------------------------------------

/// Logits of the first head, which reads the model's own states.
Result<std::vector<float>> head_logits(const Checkpoint& c) {
  ISO_TRY(const auto config, models::parse_config(c));
  if (config.draft_heads == 0) return fail(Code::not_found, "there are no heads", "test");
  ISO_TRY(const auto ops, ops::make_cpu_ops({.threads = 1, .precision = Precision::exact, .pin = false}));
  ISO_TRY(const auto model, models::load_model(c, *ops, {}, config));
  ISO_TRY(auto direct, models::Direct::create(*model, *ops, {.max_len = 64, .kv = KvType::f32}));
  std::vector<int32_t> ids;
  for (int i = 0; i < 21; ++i) ids.push_back(int32_t((i * 37 + 5) % config.vocab));
  const models::Chunk chunk{.tokens = std::span(ids).first(20), .all_logits = true}, next{.tokens = std::span(ids).last(20), .all_logits = true};
  ops::Tensor state;
  ISO_CHECK_OK(direct.step_for_drafts({&chunk, 1}, state));
  std::vector<float> hidden;
  for (int64_t r = 0; r < state.rows; ++r) hidden.insert(hidden.end(), state.row(r), state.row(r) + state.cols);
  ISO_TRY(const models::DraftResult y, direct.draft({&next, 1}, {.hidden = {hidden.data(), 20, state.cols, state.cols}}));
  std::vector<float> out;
  for (int64_t r = 0; r < y.logits.rows; ++r) out.insert(out.end(), y.logits.row(r), y.logits.row(r) + y.logits.cols);
  return out;
}

TEST(Heads, StayInAQuantizedFolderAndGgufFile) {
  for (const char* family : {"glm4_moe", "qwen3_next", "qwen3_5"}) {
    SCOPED_TRACE(family);
    const test::TempDir dir;
    const auto folder = open_checkpoint(kGoldens + family, {}), gguf = open_checkpoint(kGoldens + family + "/model.gguf", {});
    ASSERT_TRUE(folder && gguf);
    const auto want = head_logits(**folder);
    ASSERT_TRUE(want) << want.error().message();
    EXPECT_GT(cosine(*want, *head_logits(**gguf)), 0.999999);
    const auto file = written(**gguf, as_it_is(**gguf), "Q8_0", dir.file("q8.gguf"));
    ASSERT_TRUE(file) << file.error().message();
    const auto in_file = head_logits(**file);
    ASSERT_TRUE(in_file) << in_file.error().message();
    EXPECT_GT(cosine(*want, *in_file), 0.99);
    const TensorEntry* const joint = (*file)->find(family[0] == 'g' ? "blk.2.nextn.eh_proj.weight" : "blk.4.nextn.eh_proj.weight");
    ASSERT_TRUE(joint);
    EXPECT_EQ(joint->dtype, DType::q8_0);
    // The same by scheme: as `isotope quantize` writes it, and while loading.
    const Scheme* const scheme = scheme_by_name("ptpc_fp8");
    const auto online = quantize_online(*open_checkpoint(kGoldens + family, {}), config_of("ptpc_fp8"));
    ASSERT_TRUE(online) << online.error().message();
    const auto& o = static_cast<const OnlineCheckpoint&>(**online);
    std::vector<SchemeChoice> choices;
    for (const TensorEntry& e : (*folder)->tensors()) choices.push_back({&e, o.converts(*o.find(e.name)) ? scheme : nullptr});
    ASSERT_TRUE(write_safetensors_folder(**folder, choices, dir.path(), 10'000'000, {.threads = 1}));
    std::ifstream config(kGoldens + family + "/config.json");
    std::string text((std::istreambuf_iterator<char>(config)), {});
    text.insert(text.rfind('}'), R"(, "quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8}}}})");
    dir.write("config.json", text);
    const auto in_folder = head_logits(**open_checkpoint(dir.path(), {})), on_the_way = head_logits(o);
    ASSERT_TRUE(in_folder) << in_folder.error().message();
    EXPECT_EQ(*in_folder, *on_the_way);
    EXPECT_GT(cosine(*want, *in_folder), 0.97);
  }
}

TEST(Dummy, IsTheSameEveryTimeAndForEveryFamilyOfTheOracle) {
  EXPECT_EQ(*logits(*wide()), *logits(*wide()));
  int families = 0;
  for (const auto& e : fs::directory_iterator(kGoldens)) {
    SCOPED_TRACE(e.path().string());
    const test::TempDir dir;
    fs::copy_file(e.path() / "config.json", dir.file("config.json"));
    const auto c = models::dummy_checkpoint(dir.path(), "xavier");
    if (!c) {
      ADD_FAILURE() << c.error().message();
      continue;
    }
    const auto y = logits(**c, Precision::fast);
    if (!y) {
      ADD_FAILURE() << y.error().message();
      continue;
    }
    float top = 0;
    for (float v : *y) {
      ASSERT_TRUE(std::isfinite(v));
      top = std::max(top, std::fabs(v));
    }
    EXPECT_GT(top, 0);
    ++families;
  }
  EXPECT_GT(families, 40);
}

TEST(Dummy, ZeroIsZeroAndWrongWordsAreNamed) {
  const auto c = models::dummy_checkpoint(kGoldens + "llama/config.json", "zero");
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_THAT(*logits(**c), testing::Each(0.0f));
  EXPECT_THAT(models::dummy_checkpoint(kGoldens + "llama", "ones").error().message(), HasSubstr("zero, empty or xavier"));
  EXPECT_THAT(models::dummy_checkpoint("/none", "zero").error().message(), HasSubstr("/none"));
}

}  // namespace
}  // namespace isotope::weights
