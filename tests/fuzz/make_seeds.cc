// Seeds for the fuzz targets of binary formats: small whole files of every kind, written to DIR/TARGET/.
#include <filesystem>
#include <fstream>
#include <string>

#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"

namespace {

using isotope::tensor::DType;
using isotope::test::GgufWriter;
using isotope::test::SafetensorsWriter;

std::filesystem::path root;

void seed(const std::string& target, const std::string& name, const std::string& content) {
  std::filesystem::create_directories(root / target);
  std::ofstream(root / target / name, std::ios::binary) << content;
}

void gguf() {
  const std::vector<float> ones(256, 1.0f);
  const float scores[] = {0, -1};
  const int32_t types[] = {1, 3};
  const uint8_t charsmap[] = {1, 2, 3};
  seed("fuzz_gguf", "empty", GgufWriter().bytes());
  GgufWriter vocab;
  vocab.string("tokenizer.ggml.model", "llama")
      .strings("tokenizer.ggml.tokens", {"a", "b"})
      .f32s("tokenizer.ggml.scores", scores);
  vocab.i32s("tokenizer.ggml.token_type", types).strings("tokenizer.ggml.merges", {"a b"}).u32("tokenizer.ggml.eos_token_id", 1);
  vocab.boolean("tokenizer.ggml.add_bos_token", true).u8s("tokenizer.ggml.precompiled_charsmap", charsmap);
  vocab.string("tokenizer.chat_template", "{{ x }}").string("tokenizer.chat_template.tool_use", "t");
  seed("fuzz_gguf", "vocab", vocab.bytes());
  GgufWriter tensors;
  tensors.version = 2;
  tensors.alignment = 64;
  tensors.tensor("a", {1, 2, 4, 32}, DType::q4_0, ones)
      .tensor("b", {256}, DType::q4_k, ones)
      .tensor("c", {16, 16}, DType::bf16, ones);
  seed("fuzz_gguf", "tensors", tensors.bytes());
  GgufWriter split;
  split.u16("split.no", 0).u16("split.count", 2).i32("split.tensors.count", 1).u64("big", ~0ull).f32("eps", 1e-5f);
  seed("fuzz_gguf", "split", split.tensor("x", {32}, DType::f32, std::span(ones).first(32)).bytes());
}

// The first byte chooses the parser, see fuzz_safetensors.cc.
void safetensors() {
  const std::vector<float> ones(24, 1.0f);
  SafetensorsWriter w;
  w.tensor("a", {2, 3, 4}, DType::bf16, ones)
      .tensor("b", {24}, DType::f32, ones)
      .tensor("s", {}, DType::f16, std::span(ones).first(1));
  seed("fuzz_safetensors", "file", "0" + w.bytes());
  seed("fuzz_safetensors", "none", "0" + isotope::test::safetensors_file("{}", ""));
  seed("fuzz_safetensors", "index",
       R"(1{"metadata":{"total_size":8},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  seed("fuzz_safetensors", "config",
       R"(2{"hidden_size":64,"rope_scaling":{"factor":8.0,"t":[0.0,Infinity]},"eos_token_id":[1,2],"n":null,"x":NaN})");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  root = argv[1];
  gguf();
  safetensors();
  return 0;
}
