// Broken and hostile GGUF files: each must give a typed error that names the file, the place and a remedy, without memory beyond
// the file's own size.
#include <gtest/gtest.h>

#include <chrono>

#include "support/allocations.h"
#include "support/gguf_writer.h"
#include "weights/gguf.h"

namespace isotope::weights {
namespace {

using test::Bytes;
using test::GgufWriter;

constexpr uint64_t kHuge = uint64_t{1} << 63;

struct Case {
  std::string name;
  std::string file;
  Code code;
  std::string what, place;  ///< parts of the message
};

Bytes header(uint64_t tensors, uint64_t values, uint32_t version = 3) {
  return Bytes().raw("GGUF").put(version).put(tensors).put(values);
}
Bytes key(uint32_t type, std::string_view name = "k") { return header(0, 1).text(name).put(type); }
std::string filled(Bytes b, size_t n = 256) { return b.raw(std::string(n, '\0')).str(); }

struct Info {
  std::string name = "w";
  uint32_t rank = 1;
  std::vector<uint64_t> dims = {32};
  uint32_t type = 0;
  uint64_t offset = 0;
};
Bytes& put(Bytes& b, const Info& t) {
  b.text(t.name).put(t.rank);
  for (uint64_t d : t.dims) b.put(d);
  return b.put(t.type).put(t.offset);
}
// One tensor entry (or several) and 4096 bytes of data.
std::string tensors(const std::vector<Info>& infos, size_t data = 4096) {
  Bytes b = header(infos.size(), 0);
  for (const Info& t : infos) put(b, t);
  return b.pad_to(32).raw(std::string(data, '\0')).str();
}
std::string aligned(uint32_t type, uint64_t v, size_t width) {
  Bytes b = header(1, 1).text("general.alignment").put(type);
  b.raw({reinterpret_cast<const char*>(&v), width});
  return put(b, {}).pad_to(32).raw(std::string(4096, '\0')).str();
}

std::vector<Case> cases() {
  const Code bad = Code::data_loss, no = Code::unsupported;
  std::vector<Case> c;
  const auto add = [&](std::string name, std::string file, Code code, std::string what, std::string place) {
    c.push_back({std::move(name), std::move(file), code, std::move(what), std::move(place)});
  };
  // Preamble
  add("empty", "", bad, "file ends", "offset 0");
  add("magic_cut", "GGU", bad, "file ends", "offset 0");
  add("magic_wrong", filled(Bytes().raw("GGML")), Code::invalid_argument, "'GGML'", "offset 0");
  add("magic_binary", filled(Bytes().raw("\x80\x02}q")), Code::invalid_argument, "\\x80", "offset 0");
  add("version_0", filled(header(0, 0, 0)), no, "version 0", "offset 4");
  add("version_1", filled(header(0, 0, 1)), no, "version 1", "offset 4");
  add("version_4", filled(header(0, 0, 4)), no, "version 4", "offset 4");
  add("big_endian_3", filled(header(0, 0, 0x03000000)), no, "big-endian", "offset 4");
  add("big_endian_2", filled(header(0, 0, 0x02000000)), no, "big-endian", "offset 4");
  // Counts
  for (uint64_t n : {uint64_t(-1), kHuge, kHuge - 1, uint64_t(1) << 32, uint64_t(-1) / 33, uint64_t(-1) / 56 + 1}) {
    add("tensor_count_" + std::to_string(n), filled(header(n, 0)), bad, std::to_string(n) + " tensors", "offset 8");
    add("key_count_" + std::to_string(n), filled(header(0, n)), bad, std::to_string(n) + " keys", "offset 16");
  }
  add("counts_together", filled(header(5, 10)), bad, "5 tensors", "offset 8");
  // Keys
  add("key_length_2_63", filled(header(0, 1).put(kHuge)), bad, "file ends", "offset 32");
  add("key_length_max", filled(header(0, 1).put(uint64_t(-1))), bad, "file ends", "offset 32");
  add("key_longer_than_file", filled(header(0, 1).put(uint64_t{300})), bad, "file ends", "offset 32");
  add("key_empty", filled(header(0, 1).text("").put(4).put(1)), bad, "key 0", "offset 24");
  add("key_65536", filled(header(0, 1).text(std::string(65536, 'a')).put(4).put(1)), bad, "65536 bytes", "offset 24");
  add("key_nul", filled(header(0, 1).text(std::string("a\0b", 3)).put(4).put(1)), bad, "'a\\x00b'", "offset 24");
  add("key_not_utf8", filled(header(0, 1).text("a\xff").put(4).put(1)), bad, "'a\\xff'", "offset 24");
  add("key_twice", header(0, 2).text("k").put(4).put(1).text("k").put(4).put(2).str(), bad, "'k' occurs twice", "offset 41");
  // Values
  add("type_13", filled(key(13)), bad, "type 13", "key 'k'");
  add("type_max", filled(key(0xffffffff)), bad, "type 4294967295", "key 'k'");
  add("value_cut", key(10).put<uint32_t>(1).str() + "\0", bad, "file ends", "key 'k'");
  add("boolean_2", filled(key(7).put(uint8_t{2})), bad, "boolean 2", "key 'k'");
  add("boolean_array", filled(key(9).put(7).put(uint64_t{3}).raw(std::string("\0\1\7", 3))), bad, "boolean 7", "key 'k'");
  add("string_2_63", filled(key(8).put(kHuge)), bad, "file ends", "key 'k'");
  add("string_max", filled(key(8).put(uint64_t(-1))), bad, "file ends", "key 'k'");
  add("string_longer_than_file", filled(key(8).put(uint64_t{257})), bad, "file ends", "key 'k'");
  // The published 43-byte files: a length of 2^63 where the rest of the file has 11 bytes, an array that stops before its count.
  add("length_2_63_in_43_bytes", filled(header(0, 1).put(kHuge), 11), bad, "file ends", "offset 32");
  add("array_in_43_bytes", key(9, "abc").put(8).str(), bad, "file ends", "key 'abc'");
  add("array_2_63_strings_in_49_bytes", key(9).put(8).put(kHuge).str(), bad, "9223372036854775808 elements", "key 'k'");
  for (uint32_t t : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 10u, 11u, 12u})
    for (uint64_t n : {kHuge, uint64_t(-1)})
      add("array_of_" + std::to_string(t) + "_" + std::to_string(n), key(9).put(t).put(n).str(), bad,
          std::to_string(n) + " elements", "key 'k'");
  add("array_element_type", filled(key(9).put(99).put(uint64_t{1})), bad, "type 99", "key 'k'");
  add("array_one_more_than_file", key(9).put(0).put(uint64_t{5}).raw("1234").str(), bad, "5 elements", "key 'k'");
  add("array_wrapping_bytes", filled(key(9).put(10).put(uint64_t(-1) / 8 + 2)), bad, "elements", "key 'k'");
  add("array_string_cut", key(9).put(8).put(uint64_t{2}).text("abcdefgh").put<uint32_t>(0).put<uint8_t>(0).str(), bad,
      "element 1", "key 'k'");
  add("array_string_2_63", filled(key(9).put(8).put(uint64_t{2}).text("a").put(kHuge)), bad, "element 1", "key 'k'");
  add("nested_array", filled(key(9).put(9).put(uint64_t{1}).put(0).put(uint64_t{1})), no, "array of arrays", "key 'k'");
  {
    Bytes deep = key(9);
    for (int i = 0; i < 100000; ++i) deep.put(9).put(uint64_t{1});
    add("nested_100000_deep", deep.str(), no, "array of arrays", "key 'k'");
  }
  // Alignment
  for (uint32_t a : {0u, 3u, 48u, 1u << 31, 0xffffffffu})
    add("alignment_" + std::to_string(a), aligned(4, a, 4), bad, "alignment " + std::to_string(a), "general.alignment");
  add("alignment_negative", aligned(5, uint64_t(-32), 4), bad, "alignment -32", "general.alignment");
  add("alignment_2_63", aligned(10, kHuge, 8), bad, "u64", "general.alignment");
  add("alignment_half", aligned(6, 0x3f000000, 4), bad, "f32", "general.alignment");
  add("alignment_string", filled(header(0, 1).text("general.alignment").put(8).text("32")), bad, "string", "general.alignment");
  // Tensor list
  add("name_empty", tensors({{.name = ""}}), bad, "tensor 0", "offset 24");
  add("name_65536", tensors({{.name = std::string(65536, 'n')}}), bad, "65536 bytes", "offset 24");
  add("name_nul", tensors({{.name = std::string("w\0", 2)}}), bad, "'w\\x00'", "offset 24");
  add("name_not_utf8", tensors({{.name = "\xc3("}}), bad, "\\xc3", "offset 24");
  add("name_length_2_63", filled(header(1, 0).put(kHuge)), bad, "file ends", "tensor list");
  add("rank_0", tensors({{.rank = 0, .dims = {}}}), bad, "0 dimensions", "tensor 'w'");
  add("rank_5", tensors({{.rank = 5, .dims = {1, 1, 1, 1, 1}}}), bad, "5 dimensions", "tensor 'w'");
  add("rank_max", tensors({{.rank = 0xffffffff}}), bad, "4294967295 dimensions", "tensor 'w'");
  add("dimension_0", tensors({{.dims = {0}}}), bad, "dimension 0 is 0", "tensor 'w'");
  add("dimension_2_63", tensors({{.dims = {kHuge}}}), bad, "dimension 0", "tensor 'w'");
  add("dimension_2_42_1", tensors({{.rank = 2, .dims = {(uint64_t{1} << 42) + 1, uint64_t{1} << 22}}}), bad, "overflows",
      "tensor 'w'");
  add("dimensions_wrap_to_0", tensors({{.rank = 4, .dims = {65536, 65536, 65536, 65536}}}), bad, "overflows", "tensor 'w'");
  add("dimensions_wrap_small", tensors({{.rank = 2, .dims = {uint64_t{1} << 33, (uint64_t{1} << 31) + 1}}}), bad, "overflows",
      "tensor 'w'");
  add("bytes_wrap", tensors({{.rank = 2, .dims = {uint64_t{1} << 31, (uint64_t{1} << 31)}, .type = 28}}), bad,
      "more than the file holds", "tensor 'w'");
  add("block_remainder", tensors({{.dims = {33}, .type = 2}}), bad, "do not fill Q4_0 blocks", "tensor 'w'");
  add("block_remainder_inner", tensors({{.rank = 2, .dims = {128, 2}, .type = 12}}), bad, "do not fill Q4_K blocks",
      "tensor 'w'");
  for (uint32_t t : {4u, 5u, 31u, 36u, 999u, 0xffffffffu})
    add("tensor_type_" + std::to_string(t), tensors({{.type = t}}), no, "tensor type " + std::to_string(t), "tensor 'w'");
  add("name_twice", tensors({{}, {.offset = 128}}), bad, "occurs twice", "tensor 'w'");
  // Placement
  add("offset_odd", tensors({{.offset = 4}}), bad, "multiple of the alignment", "tensor 'w'");
  add("offset_beyond", tensors({{.offset = 8192}}), bad, "beyond the end", "tensor 'w'");
  add("offset_max", tensors({{.offset = uint64_t(-32)}}), bad, "beyond the end", "tensor 'w'");
  add("data_cut", tensors({{.offset = 4096 - 64}}), bad, "beyond the end", "tensor 'w'");
  add("data_missing", tensors({{.dims = {8}}}, 0), bad, "beyond the end", "tensor 'w'");
  add("overlap", tensors({{}, {.name = "v", .offset = 96}}), bad, "overlaps tensor 'w'", "tensor 'v'");
  add("overlap_same", tensors({{.name = "a"}, {.name = "b"}}), bad, "overlaps tensor", "tensor '");
  return c;
}

/// The message names the file and the place, and says what to do.
void expect_error(const Case& c, const Error& e) {
  EXPECT_EQ(e.code, c.code) << e.message();
  EXPECT_NE(e.what.find(c.what), std::string::npos) << e.message() << "\nlacks: " << c.what;
  EXPECT_NE(e.message().find(c.place), std::string::npos) << e.message() << "\nlacks: " << c.place;
  EXPECT_NE(e.source.find("hostile.gguf"), std::string::npos) << e.message();
  EXPECT_FALSE(e.remedy.empty()) << e.message();
  EXPECT_LT(e.message().size(), 600u);
}

class HostileGguf : public testing::TestWithParam<Case> {};
TEST_P(HostileGguf, IsRefusedByName) {
  const Case& c = GetParam();
  const auto start = std::chrono::steady_clock::now();
  test::largest_allocation = 0;
  const auto r = parse_gguf(std::as_bytes(std::span(c.file)), c.file.size(), "hostile.gguf");
  EXPECT_LE(test::largest_allocation, 4096 + 2 * c.file.size());                 // numbers in the file size nothing
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));  // no endless loops; milliseconds in practice
  ASSERT_FALSE(r);
  expect_error(c, r.error());
}
INSTANTIATE_TEST_SUITE_P(Files, HostileGguf, testing::ValuesIn(cases()), [](const auto& p) { return p.param.name; });

// The checks above must not make good files slow: they look at each string once.
TEST(GgufVocabulary, OfPublishedSizeIsReadWithoutCopies) {
  std::vector<std::string> tokens(150000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = "token" + std::to_string(i);
  const std::string file = GgufWriter().string("general.architecture", "llama").strings("tokenizer.ggml.tokens", tokens).bytes();
  const auto start = std::chrono::steady_clock::now();
  test::largest_allocation = 0;
  const auto r = parse_gguf(std::as_bytes(std::span(file)), file.size(), "big.gguf");
  EXPECT_LT(test::largest_allocation, file.size() / 10);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));  // a few milliseconds in practice
  ASSERT_TRUE(r && *r);
}

GgufWriter small_model() {
  GgufWriter w;
  const std::vector<float> ones(64, 1.0f);
  const int32_t types[] = {1, 1, 3};
  w.string("general.architecture", "llama")
      .u32("llama.block_count", 2)
      .boolean("flag", true)
      .strings("tokenizer.ggml.tokens", {"a", "", "ccc"});
  w.i32s("tokenizer.ggml.token_type", types).f32("llama.eps", 1e-5f).u64("big", uint64_t(-1));
  w.tensor("a.weight", {2, 32}, tensor::DType::f32, ones).tensor("b.weight", {2, 32}, tensor::DType::q8_0, ones);
  return w;
}

TEST(GgufTruncation, EveryPrefixIsRefused) {
  const std::string file = small_model().bytes();
  // The last tensor's padding may be missing.
  const size_t needed = file.size() - (32 - 68 % 32) % 32;
  for (size_t n = 0; n < needed; ++n) {
    const auto r = parse_gguf(std::as_bytes(std::span(file).first(n)), n, "cut.gguf");
    ASSERT_FALSE(r) << n << " of " << file.size();
    EXPECT_TRUE(r.error().code == Code::data_loss) << r.error().message();
    EXPECT_NE(r.error().source.find("cut.gguf"), std::string::npos);
    EXPECT_FALSE(r.error().remedy.empty());
  }
  const auto whole = parse_gguf(std::as_bytes(std::span(file).first(needed)), needed, "whole.gguf");
  ASSERT_TRUE(whole && *whole);
}

TEST(GgufTruncation, AShortHeadAsksForMore) {
  const std::string file = small_model().bytes();
  const auto whole = parse_gguf(std::as_bytes(std::span(file)), file.size(), "m.gguf");
  ASSERT_TRUE(whole && *whole);
  const uint64_t header_end = (*whole)->data_start;
  for (size_t n = 0; n < file.size(); ++n) {
    const auto r = parse_gguf(std::as_bytes(std::span(file).first(n)), file.size(), "m.gguf");
    ASSERT_TRUE(r) << n << ": " << r.error().message();
    if (n >= header_end) EXPECT_TRUE(r->has_value()) << n;
    if (!r->has_value()) EXPECT_LT(n, header_end);
  }
}

TEST(GgufMutation, NoSingleByteChangeCrashes) {
  const std::string file = small_model().bytes();
  for (size_t i = 0; i < file.size(); ++i)
    for (const char v : {'\0', '\x01', '\x7f', '\x80', '\xff'}) {
      std::string broken = file;
      broken[i] = v;
      const auto r = parse_gguf(std::as_bytes(std::span(broken)), broken.size(), "m.gguf");
      if (!r) EXPECT_FALSE(r.error().remedy.empty()) << r.error().message();
    }
}

}  // namespace
}  // namespace isotope::weights
