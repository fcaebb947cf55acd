#include "weights/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <numeric>

#include "support/gguf_writer.h"
#include "support/models.h"
#include "support/safetensors_writer.h"
#include "weights/metadata.h"

namespace isotope::weights {
namespace {

using test::GgufWriter;
using test::SafetensorsWriter;
using test::TempDir;
using testing::HasSubstr;

std::vector<float> ramp(size_t n, float start = 0) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), start);
  return v;
}

levers::Loading by_reading() { return {.disable_mmap = true}; }

std::vector<float> floats(const Checkpoint& c, std::string_view name) {
  const TensorEntry* t = c.find(name);
  if (!t) return {};
  auto d = c.read(*t);
  if (!d) return {};
  std::vector<float> out(size_t(d->view.elements()));
  EXPECT_TRUE(tensor::dequantize(d->view.dtype, d->view.data, out));
  return out;
}

void expect_error(const Result<std::unique_ptr<Checkpoint>>& r, Code code, std::initializer_list<const char*> parts) {
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, code) << r.error().message();
  for (const char* p : parts) EXPECT_THAT(r.error().message(), HasSubstr(p));
  EXPECT_FALSE(r.error().source.empty());
  EXPECT_FALSE(r.error().remedy.empty());
}

// ---- GGUF ----

GgufWriter tiny() {
  GgufWriter w;
  const float scores[] = {0, -1, -2};
  const int32_t types[] = {2, 3, 1};
  const uint8_t charsmap[] = {0, 1, 200};
  w.string("general.architecture", "llama").string("tokenizer.ggml.model", "llama").string("tokenizer.ggml.pre", "default");
  w.strings("tokenizer.ggml.tokens", {"<unk>", "</s>", "a\xff"})
      .f32s("tokenizer.ggml.scores", scores)
      .i32s("tokenizer.ggml.token_type", types);
  w.strings("tokenizer.ggml.merges", {"a b"}).u32("tokenizer.ggml.eos_token_id", 1).u32("tokenizer.ggml.unknown_token_id", 0);
  w.u32("tokenizer.ggml.bos_token_id", 0xffffffff)
      .u32("tokenizer.ggml.padding_token_id", 99)
      .boolean("tokenizer.ggml.add_bos_token", true);
  w.u8s("tokenizer.ggml.precompiled_charsmap", charsmap)
      .string("tokenizer.chat_template", "main")
      .string("tokenizer.chat_template.tool_use", "tools");
  w.tensor("token_embd.weight", {4, 32}, tensor::DType::f32, ramp(128))
      .tensor("blk.0.q", {2, 32}, tensor::DType::q8_0, ramp(64, -32));
  return w;
}

TEST(GgufCheckpoint, OpensAndReadsBothWays) {
  const TempDir dir;
  const std::string path = dir.write("m.gguf", tiny().bytes());
  for (const levers::Loading& l : {levers::Loading{}, by_reading()}) {
    auto c = open_checkpoint(path, l);
    ASSERT_TRUE(c) << c.error().message();
    EXPECT_EQ((*c)->container(), "gguf");
    EXPECT_EQ((*c)->files(), std::vector<std::string>{path});
    ASSERT_EQ((*c)->tensors().size(), 2u);
    const TensorEntry& q = *(*c)->find("blk.0.q");
    EXPECT_EQ(q.rank, 2);
    EXPECT_EQ(q.shape[0], 2);
    EXPECT_EQ(q.shape[1], 32);
    EXPECT_EQ(floats(**c, "token_embd.weight"), ramp(128));
    EXPECT_NEAR(floats(**c, "blk.0.q")[3], -29, 0.2);
    EXPECT_EQ((*c)->find("absent"), nullptr);
    EXPECT_EQ((*c)->metadata().string("general.architecture").value(), "llama");
  }
}

TEST(GgufCheckpoint, VocabularySource) {
  const TempDir dir;
  auto c = open_checkpoint(dir.write("m.gguf", tiny().bytes()), {});
  ASSERT_TRUE(c) << c.error().message();
  const VocabSource& v = (*c)->vocab();
  EXPECT_EQ(v.gguf_model, "llama");
  EXPECT_EQ(v.gguf_pre, "default");
  EXPECT_EQ(v.tokens, (std::vector<std::string>{"<unk>", "</s>", "a\xff"}));
  EXPECT_EQ(v.merges, std::vector<std::string>{"a b"});
  EXPECT_EQ(v.scores, (std::vector<float>{0, -1, -2}));
  EXPECT_EQ(v.token_types, (std::vector<int32_t>{2, 3, 1}));
  EXPECT_EQ(v.eos_id, 1);
  EXPECT_EQ(v.unk_id, 0);
  EXPECT_EQ(v.bos_id, -1);  // 2^32-1 means none
  EXPECT_EQ(v.pad_id, -1);  // names no token
  EXPECT_EQ(v.add_bos, true);
  EXPECT_FALSE(v.add_eos.has_value());
  EXPECT_EQ(v.precompiled_charsmap, std::string("\0\1\xc8", 3));
  EXPECT_EQ(v.chat_template, "main");
  ASSERT_EQ(v.named_templates.size(), 1u);
  EXPECT_EQ(v.named_templates[0], (std::pair<std::string, std::string>{"tool_use", "tools"}));
  EXPECT_EQ(v.vocab_size, 4);  // rows of the head, not tokens
}

struct VocabCase {
  const char* name;
  void (*change)(GgufWriter&);
  const char* says;
};
TEST(GgufCheckpoint, RefusesInconsistentVocabularies) {
  const VocabCase kCases[] = {
      {"no tokens", [](GgufWriter&) {}, "tokenizer.ggml.tokens"},
      {"tokens of a wrong type", [](GgufWriter& w) { w.u32("tokenizer.ggml.tokens", 3); }, "array of strings"},
      {"scores",
       [](GgufWriter& w) {
         const float f[] = {1};
         w.strings("tokenizer.ggml.tokens", {"a", "b"}).f32s("tokenizer.ggml.scores", f);
       },
       "1 elements for 2 tokens"},
      {"types",
       [](GgufWriter& w) {
         const int32_t t[] = {1};
         w.strings("tokenizer.ggml.tokens", {"a", "b"}).i32s("tokenizer.ggml.token_type", t);
       },
       "1 elements for 2"},
      {"eos", [](GgufWriter& w) { w.strings("tokenizer.ggml.tokens", {"a"}).u32("tokenizer.ggml.eos_token_id", 1); },
       "eos_token_id"},
      {"bos", [](GgufWriter& w) { w.strings("tokenizer.ggml.tokens", {"a"}).string("tokenizer.ggml.bos_token_id", "a"); },
       "bos_token_id"},
      {"switch", [](GgufWriter& w) { w.strings("tokenizer.ggml.tokens", {"a"}).u32("tokenizer.ggml.add_bos_token", 1); },
       "add_bos_token"},
      {"template", [](GgufWriter& w) { w.strings("tokenizer.ggml.tokens", {"a"}).u32("tokenizer.chat_template", 1); },
       "chat_template"},
  };
  for (const VocabCase& v : kCases) {
    const TempDir dir;
    GgufWriter w;
    w.string("tokenizer.ggml.model", "gpt2");
    v.change(w);
    expect_error(open_checkpoint(dir.write("m.gguf", w.bytes()), {}), Code::data_loss, {v.says, "m.gguf"});
  }
}

TEST(GgufCheckpoint, AlignmentOfTheFile) {
  const TempDir dir;
  for (uint64_t a : {1u, 8u, 64u, 4096u}) {
    GgufWriter w = tiny();
    w.alignment = a;
    w.version = a == 8 ? 2 : 3;
    const std::string path = dir.write("m.gguf", w.bytes());
    for (const levers::Loading& l : {levers::Loading{}, by_reading()}) {
      auto c = open_checkpoint(path, l);
      ASSERT_TRUE(c) << c.error().message();
      EXPECT_EQ(floats(**c, "token_embd.weight"), ramp(128)) << a;
      auto d = (*c)->read(*(*c)->find("token_embd.weight"));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(d->view.data) % 4, 0u);  // also where the file's alignment is less
    }
  }
}

struct Split {
  int no, count, total;
};
std::string part(const Split& s, std::string_view tensor, bool metadata) {
  GgufWriter w;
  if (metadata) w.string("general.architecture", "llama");
  w.u16("split.no", uint16_t(s.no)).u16("split.count", uint16_t(s.count)).i32("split.tensors.count", s.total);
  if (!tensor.empty()) w.tensor(tensor, {32}, tensor::DType::f32, ramp(32, float(s.no)));
  return w.bytes();
}

TEST(SplitGguf, OpensFromAnyPart) {
  const TempDir dir;
  const std::string first = dir.write("m-00001-of-00003.gguf", part({0, 3, 2}, "", true));
  dir.write("m-00002-of-00003.gguf", part({1, 3, 2}, "a", false));
  const std::string last = dir.write("m-00003-of-00003.gguf", part({2, 3, 2}, "b", false));
  for (const std::string& path : {first, dir.file("m-00002-of-00003.gguf"), last, dir.path()}) {
    auto c = open_checkpoint(path, {});
    ASSERT_TRUE(c) << c.error().message();
    EXPECT_EQ((*c)->files().size(), 3u);
    EXPECT_EQ((*c)->files()[0], first);
    EXPECT_EQ((*c)->metadata().string("general.architecture").value(), "llama");
    EXPECT_EQ(floats(**c, "a"), ramp(32, 1));
    EXPECT_EQ(floats(**c, "b"), ramp(32, 2));
  }
}

TEST(SplitGguf, RefusesIncompleteAndMixedSets) {
  {
    const TempDir dir;
    const std::string p = dir.write("m-00002-of-00003.gguf", part({1, 3, 2}, "a", false));
    expect_error(open_checkpoint(p, {}), Code::not_found, {"2 of 3 parts", "'m-00001-of-00003.gguf', 'm-00003-of-00003.gguf'"});
  }
  {
    const TempDir dir;
    expect_error(open_checkpoint(dir.write("renamed.gguf", part({0, 2, 1}, "a", true)), {}), Code::invalid_argument,
                 {"set of 2", "renamed.gguf"});
  }
  struct Mixed {
    std::string second;
    Code code;
    const char* says;
  };
  for (const Mixed& m : {Mixed{part({0, 2, 2}, "b", false), Code::data_loss, "part 1 of 2"},
                         Mixed{part({1, 3, 2}, "b", false), Code::data_loss, "part 2 of 3"},
                         Mixed{part({1, 2, 2}, "a", false), Code::data_loss, "also in"},
                         Mixed{part({1, 2, 9}, "", false), Code::data_loss, "1 tensors instead of 2"},
                         Mixed{GgufWriter().bytes(), Code::data_loss, "split.no"}, Mixed{"GGU", Code::data_loss, "file ends"}}) {
    const TempDir dir;
    dir.write("m-00002-of-00002.gguf", m.second);
    expect_error(open_checkpoint(dir.write("m-00001-of-00002.gguf", part({0, 2, 2}, "a", true)), {}), m.code, {m.says, "0000"});
  }
}

TEST(Checkpoint, RefusesPathsThatAreNoModel) {
  const TempDir dir;
  expect_error(open_checkpoint(dir.file("absent.gguf"), {}), Code::not_found, {"absent.gguf"});
  expect_error(open_checkpoint(dir.path(), {}), Code::not_found, {"neither safetensors nor GGUF"});
  expect_error(open_checkpoint(std::string("a\0b", 3), {}), Code::invalid_argument, {"NUL"});
  expect_error(open_checkpoint("/dev/zero", {}), Code::invalid_argument, {"regular file"});
  expect_error(open_checkpoint(dir.write("model.safetensors", "x"), {}), Code::invalid_argument, {"give the directory"});
  dir.write("old/pytorch_model.bin", "x");
  expect_error(open_checkpoint(dir.file("old"), {}), Code::unsupported, {"pytorch_model.bin", "safetensors"});
  dir.write("two/a.gguf", tiny().bytes());
  dir.write("two/b.gguf", tiny().bytes());
  expect_error(open_checkpoint(dir.file("two"), {}), Code::invalid_argument, {"several", "'a.gguf'"});
}

TEST(Checkpoint, AFileThatShrinksIsAnErrorNotAFault) {
  const TempDir dir;
  const std::string path = dir.write("m.gguf", tiny().bytes());
  for (const levers::Loading& l : {levers::Loading{}, by_reading()}) {
    dir.write("m.gguf", tiny().bytes());
    auto c = open_checkpoint(path, l);
    ASSERT_TRUE(c);
    std::filesystem::resize_file(path, 100);
    auto d = (*c)->read((*c)->tensors()[0]);
    ASSERT_FALSE(d);
    EXPECT_EQ(d.error().code, Code::data_loss);
    EXPECT_THAT(d.error().message(), HasSubstr("m.gguf"));
  }
}

bool maps_mention(const std::string& path) {
  std::ifstream in("/proc/self/maps");
  for (std::string line; std::getline(in, line);)
    if (line.find(path) != line.npos) return true;
  return false;
}

TEST(Checkpoint, DisableMmapMapsNothing) {
  const TempDir dir;
  const std::string path = dir.write("m.gguf", tiny().bytes());
  {
    auto c = open_checkpoint(path, by_reading());
    ASSERT_TRUE(c);
    auto d = (*c)->read((*c)->tensors()[0]);
    EXPECT_FALSE(maps_mention(path));
  }
  Result<Checkpoint::Data> kept = fail(Code::internal, "");
  {
    auto c = open_checkpoint(path, {});
    ASSERT_TRUE(c);
    kept = (*c)->read((*c)->tensors()[0]);
    EXPECT_TRUE(maps_mention(path));
  }
  ASSERT_TRUE(kept);  // data outlives the checkpoint
  float f;
  std::memcpy(&f, static_cast<const char*>(kept->view.data) + 4 * 100, 4);
  EXPECT_EQ(f, 100.0f);
  kept = fail(Code::internal, "");
  EXPECT_FALSE(maps_mention(path));
}

// ---- Hugging Face directories ----

void write_shards(const TempDir& dir) {
  dir.write("config.json",
            R"({"architectures":["LlamaForCausalLM"],"vocab_size":3,"eos_token_id":[2,7],"unknown_key":{"x":[1]}})");
  dir.write("model-00001-of-00002.safetensors",
            SafetensorsWriter().tensor("model.embed_tokens.weight", {4, 8}, tensor::DType::bf16, ramp(32)).bytes());
  dir.write("model-00002-of-00002.safetensors", SafetensorsWriter()
                                                    .tensor("b", {3}, tensor::DType::f16, ramp(3))
                                                    .tensor("c", {2, 2}, tensor::DType::f32, ramp(4, 9))
                                                    .bytes());
  dir.write("model.safetensors.index.json",
            R"({"metadata":{"total_size":86},"weight_map":{"model.embed_tokens.weight":"model-00001-of-00002.safetensors",
    "b":"model-00002-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}})");
}

TEST(Directory, ShardsWithIndex) {
  const TempDir dir;
  write_shards(dir);
  for (const levers::Loading& l : {levers::Loading{}, by_reading()}) {
    auto c = open_checkpoint(dir.path(), l);
    ASSERT_TRUE(c) << c.error().message();
    EXPECT_EQ((*c)->container(), "safetensors");
    EXPECT_EQ((*c)->files().size(), 2u);
    EXPECT_EQ(floats(**c, "model.embed_tokens.weight"), ramp(32));
    EXPECT_EQ(floats(**c, "b"), ramp(3));
    EXPECT_EQ(floats(**c, "c"), ramp(4, 9));  // six bytes in: not aligned for float32 in the file
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*c)->read(*(*c)->find("c"))->view.data) % 4, 0u);
    EXPECT_EQ((*c)->metadata().strings("architectures").value()[0], "LlamaForCausalLM");
    EXPECT_EQ((*c)->vocab().vocab_size, 4);
    EXPECT_EQ((*c)->vocab().eos_id, 2);
  }
}

TEST(Directory, ListsMissingShardsAndTensors) {
  const TempDir dir;
  write_shards(dir);
  std::filesystem::rename(dir.file("model-00002-of-00002.safetensors"), dir.file("kept"));
  expect_error(open_checkpoint(dir.path(), {}), Code::not_found,
               {"1 of 2 shards", "'model-00002-of-00002.safetensors'", "index.json"});
  dir.write("model-00002-of-00002.safetensors", SafetensorsWriter().tensor("b", {3}, tensor::DType::f16, ramp(3)).bytes());
  expect_error(open_checkpoint(dir.path(), {}), Code::data_loss, {"lacks 1 tensors", "'c'", "model-00002"});
  dir.write("model-00002-of-00002.safetensors", SafetensorsWriter()
                                                    .tensor("b", {3}, tensor::DType::f16, ramp(3))
                                                    .tensor("c", {1}, tensor::DType::f32, ramp(1))
                                                    .tensor("model.embed_tokens.weight", {1}, tensor::DType::f32, ramp(1))
                                                    .bytes());
  expect_error(open_checkpoint(dir.path(), {}), Code::data_loss, {"also in", "'model.embed_tokens.weight'"});
  dir.write("model-00002-of-00002.safetensors", "broken");
  expect_error(open_checkpoint(dir.path(), {}), Code::data_loss, {"model-00002-of-00002.safetensors"});
  dir.write("model.safetensors.index.json", "{");
  expect_error(open_checkpoint(dir.path(), {}), Code::data_loss, {"index.json"});
}

TEST(Directory, WithoutIndex) {
  const TempDir dir;
  dir.write("config.json", "{}");
  dir.write("model.safetensors", SafetensorsWriter().tensor("a", {2}, tensor::DType::f32, ramp(2)).bytes());
  dir.write("consolidated.safetensors", SafetensorsWriter().tensor("a", {2}, tensor::DType::f32, ramp(2)).bytes());
  auto c = open_checkpoint(dir.path(), {});
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ((*c)->files(), std::vector<std::string>{dir.file("model.safetensors")});
  std::filesystem::remove(dir.file("config.json"));
  expect_error(open_checkpoint(dir.path(), {}), Code::not_found, {"config.json"});
  dir.write("config.json", "[");
  expect_error(open_checkpoint(dir.path(), {}), Code::data_loss, {"config.json"});
}

TEST(Directory, TokenizerFilesAndTemplates) {
  const TempDir dir;
  write_shards(dir);
  dir.write("tokenizer.json", R"({"model":{}})");
  dir.write("special_tokens_map.json", R"({"a":1})");
  dir.write("generation_config.json", R"({"eos_token_id":[5,6],"bos_token_id":1})");
  dir.write("tokenizer_config.json",
            R"({"add_bos_token":true,"chat_template":[{"name":"default","template":"D"},{"name":"tool_use","template":"T"}]})");
  auto c = open_checkpoint(dir.path(), {});
  ASSERT_TRUE(c) << c.error().message();
  const VocabSource& v = (*c)->vocab();
  EXPECT_EQ(v.tokenizer_json, R"({"model":{}})");
  EXPECT_EQ(v.special_tokens_map_json, R"({"a":1})");
  EXPECT_EQ(v.eos_id, 5);
  EXPECT_EQ(v.bos_id, 1);
  EXPECT_EQ(v.add_bos, true);
  EXPECT_EQ(v.chat_template, "D");
  ASSERT_EQ(v.named_templates.size(), 1u);
  EXPECT_EQ(v.named_templates[0].second, "T");
  dir.write("chat_template.json", R"({"chat_template":"J"})");
  EXPECT_EQ((*open_checkpoint(dir.path(), {}))->vocab().chat_template, "J");
  dir.write("chat_template.jinja", "F");
  dir.write("additional_chat_templates/tool_use.jinja", "T2");
  dir.write("additional_chat_templates/rag.jinja", "R");
  c = open_checkpoint(dir.path(), {});
  EXPECT_EQ((*c)->vocab().chat_template, "F");
  EXPECT_THAT((*c)->vocab().named_templates,
              testing::UnorderedElementsAre(testing::Pair("tool_use", "T2"), testing::Pair("rag", "R")));
  dir.write("tokenizer_config.json", "{\"chat_template\":");
  expect_error(open_checkpoint(dir.path(), {}), Code::data_loss, {"tokenizer_config.json"});
}

// ---- Published models ----

struct Published {
  const char* name;
  size_t tensors, tokens, merges;
  const char *architecture, *tokenizer;
};
class PublishedModel : public testing::TestWithParam<Published> {};
TEST_P(PublishedModel, Opens) {
  const Published& p = GetParam();
  const std::string path = test::cached_model(p.name);
  if (path.empty()) GTEST_SKIP() << "run scripts/fetch-model " << p.name;
  auto c = open_checkpoint(path, {});
  ASSERT_TRUE(c) << c.error().message();
  EXPECT_EQ((*c)->tensors().size(), p.tensors);
  EXPECT_EQ((*c)->vocab().tokens.size(), p.tokens);
  EXPECT_EQ((*c)->vocab().merges.size(), p.merges);
  EXPECT_EQ((*c)->vocab().gguf_model, p.tokenizer);
  EXPECT_EQ((*c)->metadata().string("general.architecture").value(), p.architecture);
  auto read = open_checkpoint(path, by_reading());
  ASSERT_TRUE(read);
  for (size_t i = 0; i < p.tensors; i += 17) {
    auto a = (*c)->read((*c)->tensors()[i]), b = (*read)->read((*read)->tensors()[i]);
    ASSERT_TRUE(a && b);
    ASSERT_EQ(a->view.bytes, b->view.bytes);
    EXPECT_EQ(std::memcmp(a->view.data, b->view.data, a->view.bytes), 0) << (*c)->tensors()[i].name;
  }
}
INSTANTIATE_TEST_SUITE_P(Gguf, PublishedModel,
                         testing::Values(Published{"smollm2-135m", 272, 49152, 48900, "llama", "gpt2"},
                                         Published{"gemma3-270m", 236, 262144, 0, "gemma3", "llama"}),
                         [](const auto& p) { return std::string(p.param.architecture); });

}  // namespace
}  // namespace isotope::weights
