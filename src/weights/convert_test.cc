#include "weights/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "support/gguf_writer.h"
#include "weights/quantize_types.h"

namespace isotope::weights {
namespace {

using tensor::DType;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::vector<float> wave(size_t n) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = std::sin(0.37f * float(i)) * (1.0f + float(i % 5));
  return v;
}

std::string source() {
  return test::GgufWriter().string("general.architecture", "llama").u32("a.count", 7).strings("words", {"x", "", "yz"}).f32s("f", std::vector<float>{1, 2.5f})
      .boolean("flag", true).tensor("w", {70, 256}, DType::f16, wave(70 * 256)).tensor("v", {32}, DType::f32, wave(32)).bytes();
}

struct Made {
  test::TempDir dir;
  std::unique_ptr<Checkpoint> from = *open_checkpoint(dir.write("a.gguf", source()), {});
  std::vector<Conversion> tensors;
  GgufValues values;

  explicit Made(DType to) {
    for (const std::string& k : from->metadata().keys()) values.put(k, *from->metadata().gguf(k));
    tensors.push_back({.as = {"w", {70, 256}, to}, .from = {{.tensor = from->find("w"), .rows = 70}}});
    tensors.push_back({.as = {"v", {32}, DType::f32}, .from = {{.tensor = from->find("v"), .rows = 1}}});
  }
  Result<void> write(const std::string& path, const ConvertOptions& o = {}) {
    ISO_TRY(auto file, base::OutputFile::create(path, "OUT"));
    return write_gguf(*from, values, tensors, std::move(file), o);
  }
  std::string file() const { return dir.file("b.gguf"); }
};

std::vector<float> values(const Checkpoint& c, const char* name) {
  const auto d = *c.read(*c.find(name));
  std::vector<float> v(size_t(d.view.elements()));
  EXPECT_TRUE(tensor::dequantize(d.view.dtype, d.view.data, v));
  return v;
}

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(WriteGguf, KeepsKeysAndExactTensors) {
  Made m(DType::f16);
  m.values.put("a.count", uint32_t{8}).put("new", "text");
  m.values.remove("flag");
  ASSERT_TRUE(m.write(m.file()));
  const auto c = open_checkpoint(m.file(), {});
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_THAT((*c)->metadata().keys(), ElementsAre("general.architecture", "a.count", "words", "f", "new"));
  EXPECT_EQ(*(*c)->metadata().integer("a.count"), 8);
  EXPECT_THAT(*(*c)->metadata().strings("words"), ElementsAre("x", "", "yz"));
  EXPECT_EQ(values(**c, "w"), values(*m.from, "w"));
  EXPECT_EQ(values(**c, "v"), values(*m.from, "v"));
}

// Half a step of each format, of rows whose amplitude is 5, and what rounding the scales adds.
TEST(WriteGguf, EveryTypeStaysWithinItsError) {
  for (const auto& [type, bound] : {std::pair{DType::q8_0, 0.03f}, {DType::q6_k, 0.2f}, {DType::q5_k, 0.35f}, {DType::q5_1, 0.2f}, {DType::q5_0, 0.35f},
                                    {DType::q4_k, 0.6f}, {DType::q4_1, 0.4f}, {DType::q4_0, 0.7f}, {DType::bf16, 0.02f}, {DType::f16, 0.0f}}) {
    Made m(type);
    ASSERT_TRUE(m.write(m.file(), {.threads = 3}));
    const auto c = open_checkpoint(m.file(), {});
    ASSERT_TRUE(c) << c.error().message();
    const auto a = values(**c, "w"), b = values(*m.from, "w");
    float worst = 0;
    for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::fabs(a[i] - b[i]));
    EXPECT_LE(worst, bound) << tensor::format(type).name;
  }
}

TEST(WriteGguf, ThreadsWriteTheSameBytes) {
  Made m(DType::q4_k);
  ASSERT_TRUE(m.write(m.file(), {.threads = 1}));
  const std::string one = content(m.file());
  ASSERT_TRUE(m.write(m.file(), {.threads = 4}));
  EXPECT_EQ(content(m.file()), one);
}

TEST(WriteGguf, OrdersRowsAndShifts) {
  Made m(DType::f32);
  std::vector<int32_t> order(70);
  for (int i = 0; i < 70; ++i) order[size_t(i)] = 69 - i;
  m.tensors[0].from[0].order = order;
  m.tensors[1].shift = 1;
  ASSERT_TRUE(m.write(m.file()));
  const auto c = open_checkpoint(m.file(), {});
  ASSERT_TRUE(c);
  const auto a = values(**c, "w"), b = values(*m.from, "w");
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 256, b.end() - 256));
  EXPECT_EQ(values(**c, "v")[3], values(*m.from, "v")[3] + 1);
}

TEST(WriteGguf, AnInterruptLeavesNothing) {
  Made m(DType::q8_0);
  m.dir.write("b.gguf", "as it was");
  std::atomic<int> asked = 0;
  const auto r = m.write(m.file(), {.stop = [&] { return ++asked > 2; }});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, Code::cancelled);
  EXPECT_EQ(content(m.file()), "as it was");
  EXPECT_EQ(std::distance(fs::directory_iterator(m.dir.path()), {}), 2) << "a part of the new file is left";
}

TEST(WriteGguf, AFullDiskAndAForbiddenPlaceAreNamed) {
  Made m(DType::q8_0);
  const auto full = m.write("/dev/full");
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().message(), HasSubstr("/dev/full"));
  const auto nowhere = m.write("/no/such/folder/x.gguf");
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message(), HasSubstr("/no/such/folder/x.gguf"));
}

TEST(WriteGguf, ASourceThatIsCutMeanwhileIsNamed) {
  Made m(DType::q8_0);
  fs::resize_file(m.dir.file("a.gguf"), 2000);
  const auto r = m.write(m.file());
  ASSERT_FALSE(r);
  EXPECT_THAT(r.error().message(), HasSubstr("a.gguf"));
  EXPECT_FALSE(fs::exists(m.file()));
}

TEST(WriteGguf, TypesThatGgufLacksAreNamed) {
  Made m(DType::f8_e4m3);
  const auto r = m.write(m.file());
  ASSERT_FALSE(r);
  EXPECT_THAT(r.error().message(), HasSubstr("F8_E4M3"));
}

TEST(QuantizeTypes, MixturesAreThoseOfTheirNames) {
  struct Case {
    const char *type, *name;
    std::vector<int64_t> shape;
    DType want;
  };
  const std::vector<int64_t> m = {512, 512}, v = {512};
  for (const Case& c : std::vector<Case>{{"Q4_K_M", "blk.0.attn_q.weight", m, DType::q4_k},      {"Q4_K_M", "blk.0.attn_v.weight", m, DType::q6_k},
                                         {"Q4_K_M", "blk.10.attn_v.weight", m, DType::q4_k},     {"Q4_K_M", "blk.13.ffn_down.weight", m, DType::q4_k},
                                         {"Q4_K_M", "blk.31.ffn_down.weight", m, DType::q6_k},   {"Q4_K_S", "blk.0.attn_v.weight", m, DType::q5_k},
                                         {"Q4_K_S", "blk.4.attn_v.weight", m, DType::q4_k},      {"Q4_K_M", "output.weight", m, DType::q6_k},
                                         {"Q4_0", "output.weight", m, DType::q6_k},              {"Q8_0", "output.weight", m, DType::q8_0},
                                         {"Q4_K_M", "token_embd.weight", m, DType::q4_k},        {"Q6_K", "blk.3.ffn_up.weight", m, DType::q6_k},
                                         {"Q4_K_M", "blk.0.attn_norm.weight", v, DType::f32},    {"Q4_K_M", "blk.0.ffn_gate_inp.weight", m, DType::f32},
                                         {"Q5_K_M", "blk.0.attn_qkv.weight", m, DType::q6_k},    {"F16", "output.weight", m, DType::f16},
                                         {"Q4_K_M", "blk.0.ffn_down_exps.weight", {4, 256, 512}, DType::q6_k}}) {
    const TypeOptions o{.type = file_type_by_name(c.type), .layers = 32};
    EXPECT_EQ(type_of(o, c.name, c.shape, DType::bf16)->dtype, c.want) << c.type << " " << c.name;
  }
  TypeOptions o{.type = file_type_by_name("q4_k"), .layers = 32, .tied = true};
  EXPECT_EQ(o.type->name, "Q4_K_M");
  EXPECT_EQ(type_of(o, "token_embd.weight", m, DType::bf16)->dtype, DType::q6_k);
  o.pure = true;
  EXPECT_EQ(type_of(o, "token_embd.weight", m, DType::bf16)->dtype, DType::q4_k);
  for (const DType integers : {DType::i8, DType::i16, DType::i32, DType::i64}) EXPECT_EQ(type_of(o, "blk.0.ffn_gate_tid2eid.weight", m, integers)->dtype, integers);
  EXPECT_EQ(file_type_by_name("Q9"), nullptr);
}

}  // namespace
}  // namespace isotope::weights
