#include "weights/safetensors.h"

#include <gtest/gtest.h>

#include "support/safetensors_writer.h"

namespace isotope::weights {
namespace {

using test::Bytes;
using test::safetensors_file;
using test::SafetensorsWriter;

Result<SafetensorsHeader> parse(const std::string& file) {
  return parse_safetensors_file(std::as_bytes(std::span(file)), "m.safetensors");
}

TEST(Safetensors, ReadsEntriesInDataOrder) {
  const std::vector<float> v(24, 0.5f);
  SafetensorsWriter w;
  w.tensor("b", {2, 3, 4}, tensor::DType::bf16, v)
      .tensor("a", {24}, tensor::DType::f32, v)
      .tensor("scalar", {}, tensor::DType::f32, std::span(v).first(1));
  w.tensor("none", {0, 7}, tensor::DType::f16, std::string_view()).tensor("five", {2, 3, 2, 2, 1}, tensor::DType::f16, v);
  const auto h = parse(w.bytes());
  ASSERT_TRUE(h) << h.error().message();
  ASSERT_EQ(h->tensors.size(), 5u);
  const TensorEntry& b = h->tensors[0];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.dtype, tensor::DType::bf16);
  EXPECT_EQ(b.rank, 3);
  EXPECT_EQ(b.shape, (std::array<int64_t, 4>{2, 3, 4, 0}));
  EXPECT_EQ(b.bytes, 48u);
  EXPECT_EQ(h->tensors[1].offset, b.offset + 48);
  EXPECT_EQ(h->tensors[2].rank, 0);
  EXPECT_EQ(h->tensors[2].bytes, 4u);
  EXPECT_EQ(h->tensors[3].bytes, 0u);
  EXPECT_EQ(h->tensors[4].rank, 4);  // five dimensions: the outermost two are folded
  EXPECT_EQ(h->tensors[4].shape, (std::array<int64_t, 4>{6, 2, 2, 1}));
  ASSERT_EQ(h->metadata.size(), 1u);
  EXPECT_EQ(h->metadata[0].second, "pt");
}

TEST(Safetensors, EmptyFileOfNoTensors) { EXPECT_TRUE(parse(safetensors_file("{}", ""))); }

std::string one(std::string_view entry, std::string_view data = std::string_view("\0\0\0\0\0\0\0\0", 8)) {
  return safetensors_file("{\"w\":" + std::string(entry) + "}", data);
}
std::string pair(std::string_view a, std::string_view b, size_t bytes) {
  return safetensors_file("{\"a\":" + std::string(a) + ",\"b\":" + std::string(b) + "}", std::string(bytes, '\0'));
}
std::string f32(uint64_t n, uint64_t begin, uint64_t end) {
  return "{\"dtype\":\"F32\",\"shape\":[" + std::to_string(n) + "],\"data_offsets\":[" + std::to_string(begin) + "," +
         std::to_string(end) + "]}";
}

struct Case {
  std::string name, file;
  Code code;
  std::string what, place;
};

std::vector<Case> cases() {
  const Code bad = Code::data_loss, no = Code::unsupported;
  const std::string w = "tensor 'w'";
  std::string deep = "{\"w\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  std::string shape100 = "{\"dtype\":\"F32\",\"shape\":[1";
  for (int i = 0; i < 100; ++i) shape100 += ",1";
  shape100 += "],\"data_offsets\":[0,4]}";
  return {
      {"empty", "", bad, "0 bytes", "m.safetensors"},
      {"seven_bytes", "1234567", bad, "7 bytes", "m.safetensors"},
      {"all_ff", std::string(8, '\xff') + "{}", bad, "18446744073709551615", "offset 0"},
      {"length_2_63", Bytes().put(uint64_t{1} << 63).raw("{}").str(), bad, "9223372036854775808", "offset 0"},
      {"length_over_cap", Bytes().put(uint64_t{100'000'001}).raw("{}").str(), bad, "100000001", "offset 0"},
      {"length_is_file_size", Bytes().put(uint64_t{10}).raw("{}").str(), bad, "10 bytes, the file has 10", "offset 0"},
      {"length_one_too_long", Bytes().put(uint64_t{3}).raw("{}").str(), bad, "3 bytes", "offset 0"},
      {"length_0", Bytes().put(uint64_t{0}).raw("{}").str(), bad, "does not start with '{'", "offset 8"},
      {"no_brace", safetensors_file("  {}", ""), bad, "does not start with '{'", "offset 8"},
      {"array", safetensors_file("[]", ""), bad, "does not start with '{'", "offset 8"},
      {"json_cut", safetensors_file("{\"w\":{\"dtype\":\"F32\"", ""), bad, "no JSON object", "offset 8"},
      {"json_trailing", safetensors_file("{}x", ""), bad, "no JSON object", "offset 8"},
      {"json_not_utf8", safetensors_file("{\"\xff\":1}", ""), bad, "UTF-8", "offset 8"},
      {"json_deep", safetensors_file(deep, ""), bad, "no JSON object", "offset 8"},
      {"pickle", Bytes().raw("\x80\x02}q\x01(X\x05\x00\x00\x00").raw(std::string(64, 'x')).str(), bad, "header of", "offset 0"},
      {"entry_no_object", one("3"), bad, "no object", w},
      {"no_dtype", one("{\"shape\":[2],\"data_offsets\":[0,8]}"), bad, "no string 'dtype'", w},
      {"dtype_number", one("{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}"), bad, "no string 'dtype'", w},
      {"dtype_unknown", one("{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}"), no, "'F31'", w},
      {"dtype_case", one("{\"dtype\":\"f32\",\"shape\":[2],\"data_offsets\":[0,8]}"), no, "'f32'", w},
      {"no_shape", one("{\"dtype\":\"F32\",\"data_offsets\":[0,8]}"), bad, "no array 'shape'", w},
      {"shape_string", one("{\"dtype\":\"F32\",\"shape\":\"2\",\"data_offsets\":[0,8]}"), bad, "no array 'shape'", w},
      {"shape_negative", one("{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}"), bad, "dimension 0", w},
      {"shape_float", one("{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}"), bad, "dimension 0", w},
      {"shape_2_63", one("{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,8]}"), bad, "dimension 0", w},
      {"shape_2_64", one("{\"dtype\":\"F32\",\"shape\":[18446744073709551616],\"data_offsets\":[0,8]}"), bad, "no JSON object",
       "offset 8"},
      {"shape_product", one("{\"dtype\":\"F32\",\"shape\":[4398046511105,4194304],\"data_offsets\":[0,8]}"), bad, "overflows", w},
      {"shape_product_0", one("{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,0],\"data_offsets\":[0,0]}"), bad, "overflows",
       w},
      {"bytes_wrap", one("{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}"), bad,
       "its shape and dtype need", w},
      {"shape_too_many", one(shape100), bad, "64 dimensions", w},
      {"no_offsets", one("{\"dtype\":\"F32\",\"shape\":[2]}"), bad, "data_offsets", w},
      {"offsets_one", one("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8]}"), bad, "data_offsets", w},
      {"offsets_three", one("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}"), bad, "data_offsets", w},
      {"offsets_negative", one("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}"), bad, "data_offsets", w},
      {"offsets_reversed", one(f32(2, 8, 0)), bad, "[8, 0]", w},
      {"offsets_beyond", one(f32(2, 0, 9)), bad, "8 bytes of data", w},
      {"offsets_huge", one(f32(2, 18446744073709551608u, 18446744073709551615u)), bad, "8 bytes of data", w},
      {"size_mismatch", one(f32(1, 0, 8)), bad, "has 8 bytes of data", w},
      {"size_mismatch_more", one(f32(3, 0, 8)), bad, "need 3 x 4", w},
      {"name_twice", safetensors_file("{\"w\":" + f32(1, 0, 4) + ",\"w\":" + f32(1, 4, 8) + "}", "12345678"), bad, "occurs twice",
       w},
      {"name_twice_same_data", safetensors_file("{\"w\":" + f32(1, 0, 4) + ",\"w\":" + f32(1, 0, 4) + "}", "1234"), bad,
       "occurs twice", w},
      {"name_empty", safetensors_file("{\"\":" + f32(1, 0, 4) + "}", "1234"), bad, "no valid name", "tensor ''"},
      {"name_nul", safetensors_file("{\"w\\u0000\":" + f32(1, 0, 4) + "}", "1234"), bad, "no valid name", "'w\\x00'"},
      {"name_65536", safetensors_file("{\"" + std::string(65536, 'n') + "\":" + f32(1, 0, 4) + "}", "1234"), bad, "no valid name",
       "65536 bytes"},
      {"overlap", pair(f32(2, 0, 8), f32(2, 4, 12), 12), bad, "overlaps tensor 'a'", "tensor 'b'"},
      {"overlap_same", pair(f32(1, 0, 4), f32(1, 0, 4), 4), bad, "overlaps tensor", "tensor '"},
      {"gap", pair(f32(1, 0, 4), f32(1, 8, 12), 12), bad, "4 bytes before it", "tensor 'b'"},
      {"gap_at_start", one(f32(1, 4, 8)), bad, "4 bytes before it", w},
      {"bytes_left", one(f32(1, 0, 4)), bad, "4 bytes at the end", "offset"},
      {"only_data", safetensors_file("{}", "1234"), bad, "4 bytes at the end", "offset 10"},
      {"metadata_no_object", safetensors_file("{\"__metadata__\":3}", ""), bad, "'__metadata__'", "m.safetensors"},
      {"metadata_no_string", safetensors_file("{\"__metadata__\":{\"a\":3}}", ""), bad, "'a'", "m.safetensors"},
  };
}

class HostileSafetensors : public testing::TestWithParam<Case> {};
TEST_P(HostileSafetensors, IsRefusedByName) {
  const Case& c = GetParam();
  const auto r = parse(c.file);
  ASSERT_FALSE(r);
  const Error& e = r.error();
  EXPECT_EQ(e.code, c.code) << e.message();
  EXPECT_NE(e.what.find(c.what), std::string::npos) << e.message() << "\nlacks: " << c.what;
  EXPECT_NE(e.source.find(c.place), std::string::npos) << e.message() << "\nlacks: " << c.place;
  EXPECT_NE(e.source.find("m.safetensors"), std::string::npos) << e.message();
  EXPECT_FALSE(e.remedy.empty()) << e.message();
  EXPECT_LT(e.message().size(), 600u);
}
INSTANTIATE_TEST_SUITE_P(Files, HostileSafetensors, testing::ValuesIn(cases()), [](const auto& p) { return p.param.name; });

TEST(SafetensorsTruncation, EveryPrefixIsRefused) {
  const std::vector<float> v(16, 1.0f);
  const std::string file =
      SafetensorsWriter().tensor("a", {4, 4}, tensor::DType::f32, v).tensor("b", {16}, tensor::DType::f16, v).bytes();
  for (size_t n = 0; n < file.size(); ++n) {
    const auto r = parse(file.substr(0, n));
    ASSERT_FALSE(r) << n;
    EXPECT_EQ(r.error().code, Code::data_loss);
  }
  EXPECT_TRUE(parse(file));
}

struct IndexCase {
  const char *name, *json, *what;
};
class HostileIndex : public testing::TestWithParam<IndexCase> {};
TEST_P(HostileIndex, IsRefusedByName) {
  const auto r = parse_safetensors_index(GetParam().json, "index.json");
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, Code::data_loss);
  EXPECT_NE(r.error().message().find(GetParam().what), std::string::npos) << r.error().message();
  EXPECT_FALSE(r.error().remedy.empty());
}
constexpr IndexCase kIndexCases[] = {
    {"empty", "", "no JSON object"},
    {"array", "[]", "no JSON object"},
    {"no_map", "{}", "weight_map"},
    {"map_is_list", R"({"weight_map":[]})", "weight_map"},
    {"file_is_number", R"({"weight_map":{"w":1}})", "tensor 'w'"},
    {"file_is_path", R"({"weight_map":{"w":"../../etc/passwd"}})", "plain file name"},
    {"file_is_absolute", R"({"weight_map":{"w":"/etc/passwd"}})", "plain file name"},
    {"file_is_hidden", R"({"weight_map":{"w":".."}})", "plain file name"},
    {"file_has_nul", R"({"weight_map":{"w":"a\u0000b"}})", "plain file name"},
    {"file_is_empty", R"({"weight_map":{"w":""}})", "plain file name"},
    {"name_twice", R"({"weight_map":{"w":"a","w":"b"}})", "occurs twice"},
};
INSTANTIATE_TEST_SUITE_P(Files, HostileIndex, testing::ValuesIn(kIndexCases), [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace isotope::weights
