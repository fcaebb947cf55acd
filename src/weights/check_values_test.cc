#include "weights/check_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"

namespace isotope::weights {
namespace {

using tensor::DType;
using test::SafetensorsWriter;
using testing::ElementsAre;

struct Case {
  const char* name;
  const char* config;
  SafetensorsWriter tensors;
  std::vector<int64_t> first;  ///< of tensor "a"; empty: nothing is wrong
  int64_t nans = 0, infinities = 0;
};

std::vector<float> ones(size_t n, std::vector<std::pair<size_t, float>> at = {}) {
  std::vector<float> v(n, 1.0f);
  for (const auto& [i, x] : at) v[i] = x;
  return v;
}

std::vector<Case> cases() {
  const float kNan = NAN, kInf = INFINITY;
  std::string e4m3(8 * 32, '\x38');
  e4m3[40] = '\x7f';
  return {
      {"bf16", "{}", SafetensorsWriter().tensor("a", {4, 8}, DType::bf16, ones(32, {{9, kInf}, {30, kNan}})).tensor("b", {2}, DType::f32, ones(2)), {1, 1}, 1, 1},
      {"f16", "{}", SafetensorsWriter().tensor("a", {8}, DType::f16, ones(8, {{7, -kInf}})), {7}, 0, 1},
      {"f32 beyond the first piece", "{}", SafetensorsWriter().tensor("a", {2, 3, 50000}, DType::f32, ones(300000, {{299999, kNan}})), {1, 2, 49999}, 1, 0},
      {"finite", "{}", SafetensorsWriter().tensor("a", {4}, DType::f32, ones(4, {{0, 3e38f}})), {}},
      {"whole numbers", "{}", SafetensorsWriter().tensor("a", {4}, DType::i32, std::string(16, '\xff')), {}},
      {"E4M3 code", R"({"quantization_config": {"quant_method": "fp8"}})",
       SafetensorsWriter().tensor("a", {8, 32}, DType::f8_e4m3, e4m3).tensor("a_scale_inv", {1}, DType::f32, ones(1)), {1, 8}, 1, 0},
      {"scale", R"({"quantization_config": {"quant_method": "fp8"}})",
       SafetensorsWriter().tensor("a", {8, 32}, DType::f8_e4m3, std::string(256, '\x38')).tensor("a_scale_inv", {8, 1}, DType::f32, ones(8, {{2, kInf}})), {2, 0}, 0, 32},
      {"exponents of experts", R"({"quantization_config": {"quant_method": "mxfp4"}})",
       SafetensorsWriter().tensor("a_blocks", {2, 1, 16}, DType::u8, std::string(32, '\0')).tensor("a_scales", {2, 1}, DType::u8, std::string("\x7f\xff")), {1, 0}, 1, 0},
  };
}

TEST(CheckValues, FindsWhatIsNoNumber) {
  for (const Case& k : cases()) {
    SCOPED_TRACE(k.name);
    const test::TempDir dir;
    dir.write("config.json", k.config);
    dir.write("model.safetensors", k.tensors.bytes());
    const auto c = open_checkpoint(dir.path(), {});
    ASSERT_TRUE(c) << c.error().message();
    for (const int threads : {1, 3}) {
      LoadProgress last;
      const auto r = check_values(**c, {.num_threads = threads}, [&](const LoadProgress& p) { last = p; });
      ASSERT_TRUE(r) << r.error().message();
      EXPECT_EQ(last.done, last.total);
      ASSERT_EQ(r->bad.size(), k.first.empty() ? 0u : 1u);
      if (k.first.empty()) continue;
      EXPECT_THAT(r->bad[0].tensor->name, testing::StartsWith("a"));
      EXPECT_EQ(r->bad[0].first, k.first);
      EXPECT_EQ(r->bad[0].nans, k.nans);
      EXPECT_EQ(r->bad[0].infinities, k.infinities);
    }
  }
}

TEST(CheckValues, OfGguf) {
  const test::TempDir dir;
  test::GgufWriter w;
  w.string("general.architecture", "llama").tensor("a", {2, 32}, DType::q8_0, ones(64)).tensor("b", {2, 32}, DType::q8_0, ones(64, {{40, 2.0f}}));
  std::string bytes = w.bytes();
  const auto intact = open_checkpoint(dir.write("m.gguf", bytes), {});
  ASSERT_TRUE(intact) << intact.error().message();
  EXPECT_TRUE(check_values(**intact, {})->bad.empty());
  bytes[size_t((*intact)->find("b")->offset) + 34 + 1] = '\x7e';  // the scale of the second block: a NaN of half precision
  const auto c = open_checkpoint(dir.write("n.gguf", bytes), {});
  ASSERT_TRUE(c) << c.error().message();
  const auto r = check_values(**c, {});
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(r->tensors, 2);
  EXPECT_EQ(r->values, 128);
  ASSERT_EQ(r->bad.size(), 1u);
  EXPECT_EQ(r->bad[0].tensor->name, "b");
  EXPECT_THAT(r->bad[0].first, ElementsAre(1, 0));
  EXPECT_EQ(r->bad[0].nans, 32);
}

}  // namespace
}  // namespace isotope::weights
