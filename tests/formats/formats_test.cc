#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "ops/cpu/packed_weight.h"
#include "support/bytes.h"
#include "support/safetensors_writer.h"
#include "tensor/format.h"
#include "weights/checkpoint.h"
#include "weights/quantized.h"

namespace isotope::weights {
namespace {

using tensor::DType;
using test::SafetensorsWriter;
using testing::HasSubstr;
namespace fs = std::filesystem;

const char* const kGoldens = ISOTOPE_SOURCE_DIR "/tests/formats/goldens";

std::vector<std::string> methods() {
  const char* const fresh = std::getenv("ISOTOPE_FORMAT_GOLDENS");
  std::vector<std::string> out;
  for (const auto& e : fs::directory_iterator(fresh ? fresh : kGoldens)) out.push_back(e.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<float> values(const Checkpoint& c, const TensorEntry& t) {
  const auto d = c.read(t);
  EXPECT_TRUE(d) << d.error().message();
  if (!d) return {};
  std::vector<float> out(size_t(d->view.elements()));
  EXPECT_TRUE(tensor::dequantize(d->view.dtype, d->view.data, out));
  return out;
}

class Formats : public testing::TestWithParam<std::string> {};

TEST_P(Formats, GiveTheReferencesValuesBitForBit) {
  const auto quantized = open_checkpoint(GetParam(), {}), expected = open_checkpoint(GetParam() + "/expected", {});
  ASSERT_TRUE(quantized) << quantized.error().message();
  ASSERT_TRUE(expected) << expected.error().message();
  EXPECT_EQ((*quantized)->tensors().size(), (*expected)->tensors().size());
  for (const TensorEntry& want : (*expected)->tensors()) {
    const TensorEntry* const got = (*quantized)->find(want.name);
    ASSERT_TRUE(got) << want.name;
    EXPECT_EQ(got->shape, want.shape);
    const std::vector<float> a = values(**quantized, *got), b = values(**expected, want);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], b[i]) << want.name << " element " << i;
  }
}

/// What the kernels hold: the same values, in a pack of whole numbers where the format is one.
TEST_P(Formats, ArePackedWithoutLoss) {
  const auto c = open_checkpoint(GetParam(), {});
  ASSERT_TRUE(c);
  for (const TensorEntry& t : (*c)->tensors()) {
    if (t.rank != 2) continue;
    const auto d = (*c)->read(t);
    ASSERT_TRUE(d);
    for (const Precision precision : {Precision::exact, Precision::fast}) {
      const auto w = ops::pack_weight(d->view, {}, precision);
      ASSERT_TRUE(w) << w.error().message();
      const bool whole = t.dtype == DType::i8_g16 || t.dtype == DType::i4_g32 || t.dtype == DType::e2m1_g16 || t.dtype == DType::mxfp4;
      if (precision == Precision::fast && whole) EXPECT_TRUE(static_cast<const ops::PackedWeight&>(**w).row().integer());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Formats, testing::ValuesIn(methods()), [](const auto& info) { return fs::path(info.param).filename().string(); });

TEST(FormatTypes, GroupedIntegersStayIntegers) {
  struct Expected {
    const char* name;
    DType type;
    double bits;  ///< a weight in memory, at most
  };
  // Of the matrices' 32 rows and 128 columns, FP8's tiles of 64 rows leave half empty; those of 136 rows and 192 columns leave a third of both.
  for (const Expected& e : {Expected{"gptq", DType::i4_g32, 5.3},  {"gptq_v2", DType::i4_g32, 5.3},   {"awq", DType::i4_g32, 5.3},      {"ct_int4", DType::i4_g32, 5.3},
                            {"ct_int4_asym", DType::i4_g32, 5.3},  {"ct_int8", DType::i8_g16, 8.3},   {"ct_int8_packed", DType::i8_g16, 8.3}, {"ct_nvfp4", DType::e2m1_g16, 6.1},
                            {"ct_mxfp4", DType::mxfp4, 4.3},       {"fp8_tensor", DType::f8_g32, 16.6}, {"fp8_channel", DType::f8_g32, 16.6}, {"fp8_block", DType::f8_g32, 15.6},
                            {"gptq_act_order", DType::f32, 64}}) {  // a scale changes with every column
    const auto c = *open_checkpoint(std::string(kGoldens) + "/" + e.name, {});
    const TensorEntry& t = *c->find("a.weight");
    EXPECT_EQ(t.dtype, e.type) << e.name;
    const auto w = ops::pack_weight(c->read(t)->view, {}, Precision::fast);
    ASSERT_TRUE(w) << e.name;
    EXPECT_LE(8.0 * double((*w)->bytes), e.bits * double(t.shape[0] * t.shape[1])) << e.name;
  }
}

struct Damaged {
  const char* name;
  const char* config;
  SafetensorsWriter tensors;
  const char* says;
};

std::string zeros(size_t n) { return std::string(n, '\0'); }
const char* const kGptq = R"({"quant_method": "gptq", "bits": 4, "group_size": 32})";

std::vector<Damaged> damaged() {
  const std::string codes = zeros(4 * 8 * 8), z = zeros(2 * 4), s = zeros(2 * 2 * 8);
  return {
      {"no scales", kGptq, SafetensorsWriter().tensor("a.qweight", {8, 8}, DType::i32, codes).tensor("a.qzeros", {2, 1}, DType::i32, z), "the scales are missing"},
      {"no zeros", kGptq, SafetensorsWriter().tensor("a.qweight", {8, 8}, DType::i32, codes).tensor("a.scales", {2, 8}, DType::f16, s), "zero points are missing"},
      {"three bits", R"({"quant_method": "gptq", "bits": 3})",
       SafetensorsWriter().tensor("a.qweight", {8, 8}, DType::i32, codes).tensor("a.qzeros", {2, 1}, DType::i32, z).tensor("a.scales", {2, 8}, DType::f16, s), "codes of 3 bits"},
      {"no bits", R"({"quant_method": "gptq", "bits": 0})",
       SafetensorsWriter().tensor("a.qweight", {8, 8}, DType::i32, codes).tensor("a.qzeros", {2, 1}, DType::i32, z).tensor("a.scales", {2, 8}, DType::f16, s), "codes of 0 bits"},
      {"bits in words", R"({"quant_method": "gptq", "bits": "four"})", SafetensorsWriter().tensor("a.qweight", {8, 8}, DType::i32, codes), "bits is \"four\""},
      {"scales of other rows", kGptq,
       SafetensorsWriter().tensor("a.qweight", {8, 8}, DType::i32, codes).tensor("a.qzeros", {2, 1}, DType::i32, z).tensor("a.scales", {4, 4}, DType::f16, s), "scales are [4, 4]"},
      {"zeros of other groups", kGptq,
       SafetensorsWriter().tensor("a.qweight", {8, 8}, DType::i32, codes).tensor("a.qzeros", {1, 2}, DType::f32, z).tensor("a.scales", {2, 8}, DType::f16, s), "zero points are F32"},
      {"codes as floats", kGptq,
       SafetensorsWriter().tensor("a.qweight", {8, 8}, DType::f32, codes).tensor("a.qzeros", {2, 1}, DType::i32, z).tensor("a.scales", {2, 8}, DType::f16, s), "codes are F32"},
      {"codes as a vector", kGptq,
       SafetensorsWriter().tensor("a.qweight", {64}, DType::i32, codes).tensor("a.qzeros", {2, 1}, DType::i32, z).tensor("a.scales", {2, 8}, DType::f16, s), ""},
      {"twice", kGptq,
       SafetensorsWriter().tensor("a.qweight", {8, 8}, DType::i32, codes).tensor("a.qzeros", {2, 1}, DType::i32, z).tensor("a.scales", {2, 8}, DType::f16, s)
           .tensor("a.weight", {8, 64}, DType::f16, zeros(1024)), "both quantized and plain"},
      {"scales of fp8", R"({"quant_method": "fp8"})",
       SafetensorsWriter().tensor("a.weight", {8, 32}, DType::f8_e4m3, zeros(256)).tensor("a.weight_scale_inv", {3, 1}, DType::f32, zeros(12)), "scales are [3, 1]"},
      {"groups in words", R"({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 4}}, "b": {"weights": {"num_bits": 8}}}})",
       SafetensorsWriter().tensor("a.weight", {8, 32}, DType::f16, zeros(512)), "4 and 8 bits"},
  };
}

TEST(Damaged, FilesAreNamedAndRefused) {
  for (const Damaged& d : damaged()) {
    test::TempDir dir;
    dir.write("config.json", std::string(R"({"architectures": ["LlamaForCausalLM"], "quantization_config": )") + d.config + "}");
    dir.write("model.safetensors", d.tensors.bytes());
    const auto c = open_checkpoint(dir.path(), {});
    ASSERT_FALSE(c) << d.name;
    EXPECT_THAT(c.error().message(), HasSubstr(d.says)) << d.name;
    EXPECT_FALSE(c.error().source.empty()) << d.name;
    EXPECT_FALSE(c.error().remedy.empty()) << d.name;
  }
}

TEST(Damaged, ZeroPointsThatLeaveTheRangeAreErrorsWhenRead) {
  // Codes of 8 bits without a sign, minus a zero point of 0: up to 255, which int8 does not hold; such matrices are float32.
  test::TempDir dir;
  dir.write("config.json", R"({"architectures": ["LlamaForCausalLM"], "quantization_config": {"quant_method": "gptq", "bits": 8, "checkpoint_format": "gptq_v2"}})");
  dir.write("model.safetensors", SafetensorsWriter().tensor("a.qweight", {8, 8}, DType::i32, std::string(256, '\xff')).tensor("a.qzeros", {1, 2}, DType::i32, zeros(8))
                                     .tensor("a.scales", {1, 8}, DType::f16, std::vector<float>(8, 0.5f)).bytes());
  const auto c = open_checkpoint(dir.path(), {});
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ(values(**c, *(*c)->find("a.weight")), std::vector<float>(8 * 32, 127.5f));
}

}  // namespace
}  // namespace isotope::weights
