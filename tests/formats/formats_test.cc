#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
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
      {"nothing of a huge width", kGptq, SafetensorsWriter().tensor("a.qweight", {0, int64_t{1} << 61}, DType::i32, "").tensor("a.scales", {0, int64_t{1} << 61}, DType::f16, ""), "no elements"},
      {"huge scales of nothing", kGptq,
       SafetensorsWriter().tensor("a.qweight", {8, 8}, DType::i32, codes).tensor("a.qzeros", {0, int64_t{1} << 61}, DType::i32, "").tensor("a.scales", {2, 8}, DType::f16, s), "zero points are I32"},
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

/// A checkpoint whose tensors are not what its config.json says.
struct Contradiction {
  const char* name;
  const char* config;  ///< quantization_config; null: none
  SafetensorsWriter tensors;
  const char* says;    ///< empty: it loads
  const char* tensor = "a";
};

SafetensorsWriter plain(std::initializer_list<const char*> names) {
  SafetensorsWriter w;
  for (const char* n : names) w.tensor(n, {8, 64}, DType::bf16, zeros(1024));
  return w;
}
/// [8, 64] in groups of 32 columns.
SafetensorsWriter gptq_words(int bits = 4) {
  return SafetensorsWriter().tensor("a.qweight", {64 * bits / 32, 8}, DType::i32, zeros(size_t(64 * bits))).tensor("a.qzeros", {2, 8 * bits / 32}, DType::i32, zeros(size_t(2 * bits)))
      .tensor("a.scales", {2, 8}, DType::f16, zeros(32));
}
SafetensorsWriter awq_words() {
  return SafetensorsWriter().tensor("a.qweight", {64, 1}, DType::i32, zeros(256)).tensor("a.qzeros", {2, 1}, DType::i32, zeros(8)).tensor("a.scales", {2, 8}, DType::f16, zeros(32));
}
SafetensorsWriter packed(int64_t groups, std::array<int64_t, 2> shape = {8, 64}) {
  return SafetensorsWriter().tensor("a.weight_packed", {8, 8}, DType::i32, zeros(256)).tensor("a.weight_scale", {8, groups}, DType::bf16, zeros(size_t(16 * groups)))
      .tensor("a.weight_shape", {2}, DType::i64, std::string(reinterpret_cast<const char*>(shape.data()), 16));
}
SafetensorsWriter fp8(const char* name, std::vector<int64_t> scales, const char* suffix = "_scale_inv") {
  size_t n = 4;
  for (int64_t s : scales) n *= size_t(s);
  return SafetensorsWriter().tensor(name, {256, 192}, DType::f8_e4m3, zeros(256 * 192)).tensor(std::string(name) + suffix, scales, DType::f32, zeros(n));
}
SafetensorsWriter with(SafetensorsWriter w, const char* name) { return w.tensor(name, {256, 192}, DType::bf16, zeros(256 * 192 * 2)); }

const char* const kFp8 = R"({"quant_method": "fp8", "weight_block_size": [128, 128]})";
const char* const kLayer0 = "model.layers.0.mlp.up_proj.weight";
#define CT(weights, more) R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"], "weights": )" weights "}}" more "}"

std::vector<Contradiction> contradictions() {
  return {
      // Plain where quantized was promised.
      {"awq plain", R"({"quant_method": "awq", "bits": 4})", plain({"a.weight"}), "promises awq weights (4 bits), the tensor is plain BF16 [8, 64]"},
      {"gptq plain", kGptq, plain({"lm_head.weight", "a.weight"}), "promises gptq weights (4 bits, groups of 32 columns), the tensor is plain"},
      {"fp8 plain", kFp8, plain({"a.weight"}), "promises fp8 weights (a scale for each 128 x 128), the tensor is plain"},
      {"ct plain", CT(R"({"num_bits": 4, "type": "int", "group_size": 32})", ""), plain({"a.weight"}), "promises compressed-tensors weights (int of 4 bits, groups of 32 columns)"},
      {"modelopt plain", R"({"quant_method": "modelopt", "quant_algo": "FP8"})", plain({"a.weight"}), "promises modelopt weights"},
      {"mxfp4 plain", R"({"quant_method": "mxfp4"})", plain({"a.weight"}), "promises mxfp4 weights"},
      {"one layer plain", kFp8, with(fp8("model.layers.1.mlp.up_proj.weight", {2, 2}), kLayer0), "others of its kind are quantized", kLayer0},
      // What stays plain by custom, or because the file says so.
      {"never quantized", kFp8, plain({"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight", "model.layers.0.mlp.gate.weight"}), ""},
      {"ignored", R"({"quant_method": "fp8", "ignored_layers": ["model.layers.0.mlp.gate_up_proj"]})", with(fp8("model.layers.1.mlp.up_proj.weight", {1}), kLayer0), ""},
      {"not converted", R"({"quant_method": "fp8", "modules_to_not_convert": ["layers.0.mlp"]})", with(fp8("model.layers.1.mlp.up_proj.weight", {1}), kLayer0), ""},
      {"ignored by expression", CT(R"({"num_bits": 8, "type": "float"})", R"(, "ignore": ["re:.*layers\\.0\\..*"])"), with(fp8("model.layers.1.mlp.up_proj.weight", {256, 1}, "_scale"), kLayer0), ""},
      {"unreadable expression", CT(R"({"num_bits": 8, "type": "float"})", R"(, "ignore": ["re:*("])"), with(fp8("model.layers.1.mlp.up_proj.weight", {256, 1}, "_scale"), kLayer0), ""},
      {"left out by shell pattern", R"({"quant_method": "modelopt", "quant_algo": "FP8", "exclude_modules": ["model.layers.0*"]})",
       with(fp8("model.layers.1.mlp.up_proj.weight", {1}, "_scale"), kLayer0), ""},
      {"not among the targets", R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["re:.*layers.1.*"], "weights": {"num_bits": 8}}}})",
       with(fp8("model.layers.1.mlp.up_proj.weight", {256, 1}, "_scale"), kLayer0), ""},
      {"another kind plain", kFp8, with(fp8("model.layers.1.mlp.up_proj.weight", {2, 2}), "model.layers.0.self_attn.indexer.weights_proj.weight"), ""},
      {"awq modules without codes", R"({"quant_method": "awq", "bits": 4, "group_size": 32})", with(awq_words(), "b.weight"), ""},
      {"kv cache alone", R"({"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": {"num_bits": 8}})", plain({"a.weight"}), ""},
      // Another method.
      {"fp8 as gptq", kGptq, fp8("a.weight", {2, 2}), "promises gptq weights, the tensor is F8_E4M3 [256, 192]"},
      {"gptq as fp8", kFp8, gptq_words(), "promises fp8 weights, the tensor is I32 [8, 8]: words of gptq or awq"},
      {"packed as awq", R"({"quant_method": "awq", "bits": 4})", packed(2), "promises awq weights, the tensor is I32 [8, 8]: packed by compressed-tensors"},
      {"int8 as fp8", R"({"quant_method": "fp8"})", SafetensorsWriter().tensor("a.weight", {8, 64}, DType::i8, zeros(512)).tensor("a.weight_scale", {8, 1}, DType::f32, zeros(32)), "promises fp8 weights"},
      {"awq as gptq", kGptq, awq_words(), "are awq's"},
      {"gptq as awq", R"({"quant_method": "awq", "bits": 4, "group_size": 32})", gptq_words(), "are gptq's"},
      {"ints as floats", CT(R"({"num_bits": 8, "type": "float", "strategy": "channel"})", ""),
       SafetensorsWriter().tensor("a.weight", {8, 64}, DType::i8, zeros(512)).tensor("a.weight_scale", {8, 1}, DType::f32, zeros(32)), "promises float of 8 bits, a scale for each row; codes I8 [8, 64]"},
      // Other bits and groups.
      {"gptq of 8 bits", kGptq, gptq_words(8), "promises 4 bits, zero points [2, 2] for scales [2, 8] are of 8 bits"},
      {"gptq of 4 bits", R"({"quant_method": "gptq", "bits": 8, "group_size": 32})", gptq_words(), "promises 8 bits, zero points [2, 1] for scales [2, 8] are of 4 bits"},
      {"gptq groups", R"({"quant_method": "gptq", "bits": 4, "group_size": 64})", gptq_words(), "groups of 64 columns; codes I32 [8, 8] and scales [2, 8] are whole numbers of 4 bits, [8, 64] with a scale for each 32 columns"},
      {"gptq whole rows", R"({"quant_method": "gptq", "bits": 4, "group_size": -1})", gptq_words(), "each 32 columns"},
      {"gptq by module", R"({"quant_method": "gptq", "bits": 4, "group_size": 64, "dynamic": {"+:a": {"group_size": 32}}})", gptq_words(), ""},
      {"gptq right", kGptq, gptq_words(), ""},
      {"awq groups", R"({"quant_method": "awq", "w_bit": 4, "q_group_size": 64})", awq_words(), "groups of 64 columns"},
      {"ct groups", CT(R"({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 64})", ""), packed(2), "groups of 64 columns"},
      {"ct rows", CT(R"({"num_bits": 4, "type": "int", "strategy": "channel"})", ""), packed(2), "a scale for each row"},
      {"ct bits", CT(R"({"num_bits": 8, "type": "int", "strategy": "channel"})", ""), packed(1), "promises 8 bits, which makes codes of [8, 8] a matrix [8, 32]; the file says it is [8, 64]"},
      {"ct bits and groups", CT(R"({"num_bits": 8, "type": "int", "strategy": "group", "group_size": 32})", ""), packed(2), "[8, 32] with a scale for each 16 columns"},
      {"ct right", CT(R"({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32})", ""), packed(2), ""},
      {"ct one of two", R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4, "group_size": 64}}, "h": {"weights": {"num_bits": 4, "group_size": 32}}}})", packed(2), ""},
      {"groups as a word", R"({"quant_method": "gptq", "bits": 4, "group_size": "all"})", gptq_words(), "group_size is \"all\"", nullptr},
      // Blocks of FP8.
      {"blocks of 64", kFp8, fp8("a.weight", {4, 3}), "a scale for each 128 x 128; codes F8_E4M3 [256, 192] and scales [4, 3] are floats of 8 bits, [256, 192] with a scale for 64 rows by each 64 columns"},
      {"rows for blocks", kFp8, fp8("a.weight", {256, 1}), "a scale for each 128 x 128"},
      {"one for blocks", kFp8, fp8("a.weight", {1}), "a scale for each 128 x 128"},
      {"blocks right, cut", kFp8, fp8("a.weight", {2, 2}), ""},
      {"blocks of 96 x 160, cut", R"({"quant_method": "fp8", "weight_block_size": [96, 160]})", fp8("a.weight", {3, 2}), ""},
      {"blocks of one number", R"({"quant_method": "fp8", "weight_block_size": 128})", fp8("a.weight", {2, 2}), "weight_block_size is 128", nullptr},
      // Quantized where nothing was promised.
      {"unannounced qweight", nullptr, gptq_words(), "has no quantization_config"},
      {"unannounced weight_packed", nullptr, packed(2), "has no quantization_config"},
      {"unannounced weight_scale", nullptr, fp8("a.weight", {256, 1}, "_scale"), "has no quantization_config"},
      {"unannounced weight_scale_inv", nullptr, fp8("a.weight", {2, 2}), "has no quantization_config"},
      {"E4M3 alone", nullptr, SafetensorsWriter().tensor("a.weight", {8, 64}, DType::f8_e4m3, zeros(512)), ""},
  };
}

TEST(Contradictions, BetweenConfigAndTensorsAreErrorsThatNameBoth) {
  for (const Contradiction& k : contradictions()) {
    SCOPED_TRACE(k.name);
    test::TempDir dir;
    dir.write("config.json", std::string(R"({"architectures": ["LlamaForCausalLM"])") + (k.config ? std::string(R"(, "quantization_config": )") + k.config : "") + "}");
    dir.write("model.safetensors", k.tensors.bytes());
    const auto c = open_checkpoint(dir.path(), {});
    EXPECT_EQ(bool(c), !*k.says) << (c ? "it loads" : c.error().message());
    if (c || !*k.says) continue;
    EXPECT_THAT(c.error().message(), HasSubstr(k.says));
    if (k.tensor) EXPECT_THAT(c.error().source, testing::StartsWith(dir.path() + "/model.safetensors, tensor '" + k.tensor));
    EXPECT_THAT(c.error().message(), HasSubstr("config.json"));
    EXPECT_FALSE(c.error().remedy.empty());
  }
}

TEST(Contradictions, BlocksOfTheStatedSizeAreCutAtTheEnd) {
  test::TempDir dir;
  dir.write("config.json", R"({"architectures": ["LlamaForCausalLM"], "quantization_config": {"quant_method": "fp8", "weight_block_size": [48, 64]}})");
  dir.write("model.safetensors", SafetensorsWriter().tensor("a.weight", {100, 96}, DType::f8_e4m3, std::string(9600, '\x38'))
                                     .tensor("a.weight_scale_inv", {3, 2}, DType::f32, std::vector<float>{1, 2, 3, 4, 5, 6}).bytes());
  const auto c = open_checkpoint(dir.path(), {});
  ASSERT_TRUE(c) << c.error().message();
  const std::vector<float> v = values(**c, *(*c)->find("a.weight"));
  ASSERT_EQ(v.size(), 9600u);
  for (size_t r = 0; r < 100; ++r)
    for (size_t k = 0; k < 96; ++k) ASSERT_EQ(v[r * 96 + k], float(1 + r / 48 * 2 + k / 64)) << r << " " << k;
}

TEST(Contradictions, HeadsBehindTheLayersMayBeOfAnotherMake) {
  test::TempDir dir;
  dir.write("config.json", std::string(R"({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "quantization_config": )") + kFp8 + "}");
  dir.write("model.safetensors", with(fp8("model.layers.1.mlp.up_proj.weight", {2, 2}), "model.layers.2.mlp.up_proj.weight").bytes());
  const auto c = open_checkpoint(dir.path(), {});
  EXPECT_TRUE(c) << c.error().message();
}

TEST(Contradictions, HfQuantConfigCountsWhereConfigSaysNothing) {
  test::TempDir dir;
  const auto write = [&](const SafetensorsWriter& w, const char* more) {
    dir.write("config.json", std::string(R"({"architectures": ["LlamaForCausalLM"])") + more + "}");
    dir.write("model.safetensors", w.bytes());
    return open_checkpoint(dir.path(), {});
  };
  dir.write("hf_quant_config.json", R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}})");
  const auto good = write(fp8("a.weight", {1}, "_scale"), "");
  ASSERT_TRUE(good) << good.error().message();
  EXPECT_EQ((*good)->tensors().size(), 1u) << "put together";
  const auto bad = write(plain({"a.weight"}), "");
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message(), HasSubstr("hf_quant_config.json beside"));
  const auto words = write(gptq_words(), std::string(R"(, "quantization_config": )").append(kGptq).c_str());
  EXPECT_TRUE(words) << "config.json goes first";
  dir.write("hf_quant_config.json", "{");
  EXPECT_FALSE(write(plain({"a.weight"}), ""));
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

TEST(Gptq, SymmetricCodesOfEightBitsStayEightBits) {
  for (const bool kept : {true, false}) {  // zero points are the middle, as config.json says; or 0
    test::TempDir dir;
    dir.write("config.json",
              R"({"architectures": ["LlamaForCausalLM"], "quantization_config": {"quant_method": "gptq", "bits": 8, "sym": true, "checkpoint_format": "gptq_v2"}})");
    dir.write("model.safetensors", SafetensorsWriter().tensor("a.qweight", {8, 8}, DType::i32, std::string(256, '\xff'))
                                       .tensor("a.qzeros", {1, 2}, DType::i32, std::string(8, kept ? '\x80' : '\0'))
                                       .tensor("a.scales", {1, 8}, DType::f16, std::vector<float>(8, 0.5f)).bytes());
    const auto c = open_checkpoint(dir.path(), {});
    ASSERT_TRUE(c) << c.error().message();
    const TensorEntry& e = *(*c)->find("a.weight");
    EXPECT_EQ(e.dtype, DType::i8_g16);
    if (kept) {
      EXPECT_EQ(values(**c, e), std::vector<float>(8 * 32, 63.5f));
      continue;
    }
    const auto read = (*c)->read(e);
    ASSERT_FALSE(read);
    for (const char* s : {"code less zero point is 255", "\"sym\""}) EXPECT_THAT(read.error().message(), HasSubstr(s));
  }
}

}  // namespace
}  // namespace isotope::weights
