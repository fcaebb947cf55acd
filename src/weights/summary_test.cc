#include "weights/summary.h"

#include <gtest/gtest.h>

#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"

namespace isotope::weights {
namespace {

using tensor::DType;

const std::vector<float> kOnes(1024, 1.0f);

TEST(Summary, CountsByTypeAndNamesTheFileType) {
  const test::TempDir dir;
  test::GgufWriter w;
  w.u32("general.file_type", 15);
  w.tensor("a", {4, 256}, DType::q4_k, kOnes).tensor("b", {2, 256}, DType::q8_0, std::span(kOnes).first(512));
  w.tensor("norm", {256}, DType::f32, std::span(kOnes).first(256));
  const auto c = open_checkpoint(dir.write("m.gguf", w.bytes()), {});
  ASSERT_TRUE(c);
  const Summary s = summarize(**c);
  EXPECT_EQ(s.file_type, "Q4_K_M");
  EXPECT_EQ(s.nominal_bits, 4.5);
  EXPECT_EQ(s.parameters, 1024 + 512 + 256);
  EXPECT_EQ(s.bytes, 4 * 144 + 16 * 34 + 1024);
  EXPECT_DOUBLE_EQ(s.bits, 8.0 * double(s.bytes) / double(s.parameters));
  ASSERT_EQ(s.types.size(), 3u);
  EXPECT_EQ(s.types[0].dtype, DType::f32);  // most bytes
  EXPECT_EQ(s.types[1].dtype, DType::q4_k);
  EXPECT_EQ(s.types[2].elements, 512);
}

TEST(Summary, TheMostCommonTypeNamesFilesThatDoNot) {
  const test::TempDir dir;
  dir.write("config.json", "{}");
  test::SafetensorsWriter w;
  w.tensor("a", {1024}, DType::bf16, kOnes).tensor("n", {8}, DType::f32, std::span(kOnes).first(8));
  dir.write("model.safetensors", w.bytes());
  const auto c = open_checkpoint(dir.path(), {});
  ASSERT_TRUE(c);
  EXPECT_EQ(summarize(**c).file_type, "BF16");
  EXPECT_EQ(summarize(**c).nominal_bits, 16);
}

TEST(Summary, OfNothing) {
  const test::TempDir dir;
  const auto c = open_checkpoint(dir.write("m.gguf", test::GgufWriter().u32("general.file_type", 9999).bytes()), {});
  ASSERT_TRUE(c);
  const Summary s = summarize(**c);
  EXPECT_EQ(s.parameters, 0);
  EXPECT_EQ(s.bits, 0);
  EXPECT_TRUE(s.file_type.empty());
}

TEST(Summary, FormatBits) {
  EXPECT_EQ(format_bits(DType::q4_k), 4.5);
  EXPECT_EQ(format_bits(DType::mxfp4), 4.25);
  EXPECT_EQ(format_bits(DType::bf16), 16);
}

}  // namespace
}  // namespace isotope::weights
