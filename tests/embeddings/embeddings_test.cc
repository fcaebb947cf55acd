// Encoders as files lay them out: equal to `transformers`, equal to themselves in any company, and clear about what they cannot do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <numeric>

#include "isotope/engine.h"
#include "levers/levers.h"

namespace isotope {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using Vectors = PoolRequest::Vectors;

const fs::path kGoldens = ISOTOPE_SOURCE_DIR "/tests/embeddings/goldens";

json read(const fs::path& p) {
  std::ifstream in(p);
  return json::parse(in);
}

Result<std::unique_ptr<Engine>> open(const fs::path& folder, Precision p = Precision::exact, EngineOptions o = {}) {
  o.model = folder.string();
  o.precision = p;
  if (o.threads == 0) o.threads = 2;
  return Engine::open(o, levers::Levers::defaults());
}

Result<Vectors> pool(Engine& e, std::vector<PoolInput> inputs, bool classify = false, bool activation = true) {
  auto promise = std::make_shared<std::promise<Result<Vectors>>>();
  auto future = promise->get_future();
  ISO_CHECK_OK(e.pool({.inputs = std::move(inputs), .classify = classify, .activation = activation, .done = [promise](Result<Vectors> v) { promise->set_value(std::move(v)); }}));
  return future.get();
}

struct Golden {
  fs::path folder;
  std::vector<PoolInput> inputs;
  Vectors expected;
  bool classify = false;

  explicit Golden(fs::path f) : folder(std::move(f)) {
    const json j = read(folder / "expected.json");
    classify = j["pooling"].is_null();
    for (const json& c : j["cases"]) {
      inputs.push_back({c["tokens"].get<std::vector<int32_t>>(), c["second"].get<int64_t>()});
      expected.push_back(c["expected"].get<std::vector<float>>());
    }
  }
};

std::vector<std::string> folders() {
  std::vector<std::string> out;
  for (const auto& e : fs::directory_iterator(kGoldens)) out.push_back(e.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) ab += double(a[i]) * b[i], aa += double(a[i]) * a[i], bb += double(b[i]) * b[i];
  return ab / std::sqrt(aa * bb);
}

class Goldens : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Encoders, Goldens, testing::ValuesIn(folders()), [](const auto& p) {
  std::string name = p.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(Goldens, EqualTransformers) {
  const Golden g(kGoldens / GetParam());
  const auto engine = open(g.folder);
  ASSERT_TRUE(engine) << engine.error().message();
  EXPECT_FALSE((*engine)->info().generates);
  const auto got = pool(**engine, g.inputs, g.classify);
  ASSERT_TRUE(got) << got.error().message();
  ASSERT_EQ(got->size(), g.expected.size());
  for (size_t i = 0; i < got->size(); ++i) {
    ASSERT_EQ((*got)[i].size(), g.expected[i].size());
    for (size_t d = 0; d < (*got)[i].size(); ++d) EXPECT_NEAR((*got)[i][d], g.expected[i][d], 1e-5) << "input " << i << ", dimension " << d;
  }
}

TEST_P(Goldens, DefaultPrecisionIsClose) {
  const Golden g(kGoldens / GetParam());
  const auto engine = open(g.folder, Precision::fast);
  const auto got = pool(**engine, g.inputs, g.classify);
  ASSERT_TRUE(got);
  for (size_t i = 0; i < got->size(); ++i) {
    if (g.classify) EXPECT_NEAR((*got)[i][0], g.expected[i][0], 5e-3);
    else EXPECT_GE(cosine((*got)[i], g.expected[i]), 0.9999) << "input " << i;
  }
}

TEST_P(Goldens, ScoresWithoutTheirActivation) {
  const Golden g(kGoldens / GetParam());
  const auto engine = open(g.folder);
  const auto usual = pool(**engine, g.inputs, g.classify), raw = pool(**engine, g.inputs, g.classify, false);
  ASSERT_TRUE(usual && raw);
  if (!g.classify) EXPECT_EQ(*usual, *raw);
  const bool sigmoid = g.classify && (*engine)->pooling()->sigmoid;
  for (size_t i = 0; i < usual->size(); ++i) EXPECT_FLOAT_EQ((*usual)[i][0], sigmoid ? 1 / (1 + std::exp(-(*raw)[i][0])) : (*raw)[i][0]);
}

// Contract 1: company, order, number of threads, batch borders.
TEST_P(Goldens, AloneAndTogetherAreTheSameBits) {
  const Golden g(kGoldens / GetParam());
  for (const Precision p : {Precision::exact, Precision::fast}) {
    const auto two = open(g.folder, p), one = open(g.folder, p, {.threads = 1});
    const auto together = pool(**two, g.inputs, g.classify);
    std::vector<PoolInput> many;
    for (int i = 0; i < 20; ++i) many.insert(many.end(), g.inputs.rbegin(), g.inputs.rend());
    const auto crowd = pool(**two, many, g.classify);
    ASSERT_TRUE(together && crowd);
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      const auto alone = pool(**one, {g.inputs[i]}, g.classify);
      ASSERT_TRUE(alone);
      const auto same = [&](const std::vector<float>& v) { return v.size() == (*alone)[0].size() && !std::memcmp(v.data(), (*alone)[0].data(), v.size() * sizeof(float)); };
      EXPECT_TRUE(same((*together)[i])) << i;
      for (size_t k = 0; k < 20; ++k) EXPECT_TRUE(same((*crowd)[k * g.inputs.size() + g.inputs.size() - 1 - i])) << i;
    }
  }
}

// ---- what files say, and what they must not --------------------------------------------------------------------------------------
class Files : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("isotope_embeddings_" + std::to_string(::getpid()));
    fs::remove_all(dir_);
    fs::copy(kGoldens / "bert-mean", dir_, fs::copy_options::recursive);
  }
  void TearDown() override { fs::remove_all(dir_); }
  void write(const std::string& name, const std::string& text) { std::ofstream(dir_ / name, std::ios::binary) << text; }
  void set(const std::string& key, const json& value) {
    json j = read(dir_ / "config.json");
    j[key] = value;
    write("config.json", j.dump());
  }
  std::string refusal() {
    const auto e = open(dir_);
    return e ? "" : e.error().message();
  }
  /// Every element of a tensor becomes this bfloat16.
  void fill(const std::string& tensor, uint16_t bits) {
    std::fstream f(dir_ / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    uint64_t n = 0;
    f.read(reinterpret_cast<char*>(&n), 8);
    std::string header(n, ' ');
    f.read(header.data(), std::streamsize(n));
    const auto offsets = json::parse(header)[tensor]["data_offsets"].get<std::vector<uint64_t>>();
    f.seekp(std::streamoff(8 + n + offsets[0]));
    for (uint64_t i = offsets[0]; i < offsets[1]; i += 2) f.write(reinterpret_cast<const char*>(&bits), 2);
  }
  fs::path dir_;
};

TEST_F(Files, PoolingIsWhatTheyOrTheOptionsSay) {
  const std::vector<PoolInput> in = {{{5, 6, 7}}};
  const auto vector = [&](EngineOptions o) { return (*pool(**open(dir_, Precision::exact, o), in))[0]; };
  const auto unit = [](const std::vector<float>& v) { return std::abs(cosine(v, v) - 1) < 1e-9 && std::abs(std::inner_product(v.begin(), v.end(), v.begin(), 0.0) - 1) < 1e-5; };
  const auto mean = vector({}), raw = vector({.normalize = false}), cls = vector({.pooling = Pooling::cls});
  EXPECT_TRUE(unit(mean));
  EXPECT_FALSE(unit(raw));
  EXPECT_NEAR(cosine(mean, raw), 1, 1e-6);
  EXPECT_LT(cosine(mean, cls), 0.9999);
  for (const char* f : {"modules.json", "1_Pooling/config.json"}) fs::remove(dir_ / f);
  EXPECT_EQ(vector({}), mean) << "without files: the mean, of length 1";
  write("sentence_bert_config.json", R"({"max_seq_length": 7})");
  EXPECT_EQ((*open(dir_))->pooling()->max_tokens, 7);
  EXPECT_EQ((*open(dir_, Precision::exact, {.max_model_len = 250}))->pooling()->max_tokens, 250);
}

TEST_F(Files, UnknownPoolingsAreNamed) {
  for (const auto& [config, text] : std::vector<std::pair<std::string, std::string>>{
           {R"({"pooling_mode_weightedmean_tokens": true})", "weightedmean"}, {R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})", "two poolings"},
           {R"({})", "no pooling"}, {R"({"pooling_mode": "attention"})", "attention"}, {R"([])", "no JSON object"}, {"{", "1_Pooling"}}) {
    write("1_Pooling/config.json", config);
    EXPECT_THAT(refusal(), HasSubstr(text));
    EXPECT_TRUE(open(dir_, Precision::exact, {.pooling = Pooling::mean})) << "the option settles it";
  }
  write("modules.json", R"([{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}])");
  EXPECT_THAT(refusal(), HasSubstr("Dense"));
  write("modules.json", R"([5, {"type": 3}])");
  EXPECT_THAT(refusal(), HasSubstr("step of type"));
}

TEST_F(Files, ConfigurationsThatCannotBe) {
  const json good = read(dir_ / "config.json");
  for (const auto& [key, value, text] : std::vector<std::tuple<std::string, json, std::string>>{
           {"num_attention_heads", 3, "no multiple"}, {"hidden_size", 32, "shape"}, {"hidden_size", 24, "12 dimensions"}, {"num_hidden_layers", 0, "num_hidden_layers"}, {"num_hidden_layers", 3, "encoder.layer.2"},
           {"position_embedding_type", "relative_key", "relative_key"}, {"is_decoder", true, "is_decoder"}, {"hidden_act", "mish", "mish"},
           {"layer_norm_eps", -1, "layer_norm_eps"}, {"vocab_size", "x", "vocab_size"}, {"max_position_embeddings", 1000, "shape"}, {"type_vocab_size", -1, "type_vocab_size"}}) {
    write("config.json", good.dump());
    set(key, value);
    EXPECT_THAT(refusal(), HasSubstr(text)) << key;
  }
}

TEST_F(Files, WeightsThatAreNoNumbersCostOnlyTheTextsThatMeetThem) {
  fill("embeddings.token_type_embeddings.weight", 0x7FC0);
  const auto engine = open(dir_);
  ASSERT_TRUE(engine);
  const auto got = pool(**engine, {{{5, 6}}});
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message(), HasSubstr("not a finite number"));
  EXPECT_EQ(got.error().code, Code::data_loss);
}

// ---- requests -------------------------------------------------------------------------------------------------------------------
TEST(Requests, AreChecked) {
  const auto engine = open(kGoldens / "bert-mean", Precision::exact, {.max_model_len = 16});
  ASSERT_TRUE(engine);
  const auto said = [&](std::vector<int32_t> ids) {
    const auto r = pool(**engine, {{{5}}, {std::move(ids)}});
    return r ? "" : r.error().message();
  };
  EXPECT_EQ(said(std::vector<int32_t>(16, 5)), "");
  EXPECT_THAT(said(std::vector<int32_t>(17, 5)), HasSubstr("17 tokens, the model reads at most 16"));
  EXPECT_THAT(said(std::vector<int32_t>(160, 5)), HasSubstr("input 1"));
  EXPECT_THAT(said({}), HasSubstr("no tokens"));
  EXPECT_THAT(said({99}), HasSubstr("not in the vocabulary of 99"));
  EXPECT_THAT(said({-1}), HasSubstr("token id -1"));
  EXPECT_EQ(pool(**engine, {})->size(), 0u);
  EXPECT_THAT(pool(**engine, {{{5}}}, true).error().message(), HasSubstr("no classification head"));
  EXPECT_THAT((*engine)->submit({.prompt = {5}}).error().message(), HasSubstr("encoder"));
}

TEST(Requests, TenThousandInputsAndOthersBetween) {
  const auto engine = open(kGoldens / "bert-mean");
  std::vector<PoolInput> many(10'000);
  for (size_t i = 0; i < many.size(); ++i) many[i].tokens = {int32_t(5 + i % 90), int32_t(5 + i / 90 % 90), 7};
  std::promise<Result<Vectors>> done;
  std::atomic<bool> finished = false;
  ASSERT_TRUE((*engine)->pool({.inputs = many, .done = [&](Result<Vectors> v) { finished = true; done.set_value(std::move(v)); }}));
  const auto between = pool(**engine, {many[1234]});
  EXPECT_FALSE(finished) << "a short request need not wait for a long one";
  const auto all = done.get_future().get();
  ASSERT_TRUE(all && between);
  ASSERT_EQ(all->size(), many.size());
  EXPECT_EQ((*all)[1234], (*between)[0]);
}

TEST(Requests, EndWithTheEngine) {
  auto engine = open(kGoldens / "bert-mean");
  auto cancelled = std::make_shared<std::atomic<bool>>(true);
  bool called = false;
  ASSERT_TRUE((*engine)->pool({.inputs = std::vector<PoolInput>(500, PoolInput{{5, 6}}), .done = [&](auto) { called = true; }, .cancelled = cancelled}));
  EXPECT_TRUE(pool(**engine, {{{5}}}));
  EXPECT_FALSE(called) << "nobody waits for it";
  std::promise<Result<Vectors>> done;
  ASSERT_TRUE((*engine)->pool({.inputs = std::vector<PoolInput>(20'000, PoolInput{std::vector<int32_t>(100, 6)}), .done = [&](Result<Vectors> v) { done.set_value(std::move(v)); }}));
  (*engine)->shutdown(0);
  const auto end = done.get_future().get();
  EXPECT_TRUE(end || end.error().code == Code::unavailable);
  EXPECT_EQ(pool(**engine, {{{5}}}).error().code, Code::unavailable);
}

}  // namespace
}  // namespace isotope
