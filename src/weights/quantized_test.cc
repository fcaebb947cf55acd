// DeepSeek V4's own names of quantized matrices: scales are called .scale, and experts' pairs of E2M1 call themselves int8. (tests/formats compares the
// methods with their own libraries.)
#include "weights/quantized.h"

#include <gtest/gtest.h>

#include "support/safetensors_writer.h"
#include "weights/load_all.h"

namespace isotope::weights {
namespace {

using tensor::DType;

std::vector<float> values(const Checkpoint& c, const std::string& name) {
  const TensorEntry* const e = c.find(name);
  EXPECT_NE(e, nullptr) << name;
  std::vector<float> out;
  if (!e) return out;
  const auto read = [&](std::span<Checkpoint::Data> d) -> Result<void> {
    out.resize(size_t(d[0].view.elements()));
    return tensor::dequantize(d[0].view.dtype, d[0].view.data, out);
  };
  const auto r = load_one(c, {{e}, read});
  EXPECT_TRUE(r) << (r ? "" : r.error().message());
  return out;
}

TEST(Quantized, NamesOfDeepSeekV4) {
  const test::TempDir dir;
  const std::string ones(2 * 128, '\x38'), pairs(2 * 32, '\x52');  // 1 as E4M3; 1 and 3 as E2M1, low nibble first
  dir.write("config.json", R"({"architectures": ["DeepseekV4ForCausalLM"], "quantization_config": {"quant_method": "fp8"}})");
  dir.write("model.safetensors", test::SafetensorsWriter()
                                     .tensor("layers.0.attn.wq_a.weight", {2, 128}, DType::f8_e4m3, ones)
                                     .tensor("layers.0.attn.wq_a.scale", {1, 1}, DType::f8_e8m0, std::string(1, '\x81'))
                                     .tensor("layers.0.ffn.experts.0.w1.weight", {2, 32}, DType::i8, pairs)
                                     .tensor("layers.0.ffn.experts.0.w1.scale", {2, 2}, DType::f8_e8m0, std::string("\x7f\x80\x80\x7f"))
                                     .bytes());
  const auto c = open_checkpoint(dir.path(), {});
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ((*c)->tensors().size(), 2u) << "scales do not stand for themselves";
  EXPECT_EQ(values(**c, "layers.0.attn.wq_a.weight"), std::vector<float>(256, 4.0f));
  const auto w = values(**c, "layers.0.ffn.experts.0.w1.weight");
  ASSERT_EQ(w.size(), 128u);
  for (size_t i = 0; i < w.size(); ++i) {
    const bool twice = (i / 64 == 0) == (i / 32 % 2 == 1);
    EXPECT_EQ(w[i], (i % 2 ? 3.0f : 1.0f) * (twice ? 2.0f : 1.0f)) << i;
  }
}

}  // namespace
}  // namespace isotope::weights
