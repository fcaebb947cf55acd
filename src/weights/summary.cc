#include "weights/summary.h"

#include <algorithm>
#include <string>
#include <utility>

#include "weights/metadata.h"

namespace isotope::weights {

namespace {

using tensor::DType;

struct FileType {
  int64_t id;
  const char* name;
  DType main;  ///< the format it is named after
};
// general.file_type of GGUF files.
constexpr FileType kFileTypes[] = {
    {0, "F32", DType::f32},          {1, "F16", DType::f16},        {2, "Q4_0", DType::q4_0},      {3, "Q4_1", DType::q4_1},
    {7, "Q8_0", DType::q8_0},        {8, "Q5_0", DType::q5_0},      {9, "Q5_1", DType::q5_1},      {10, "Q2_K", DType::q2_k},
    {11, "Q3_K_S", DType::q3_k},     {12, "Q3_K_M", DType::q3_k},   {13, "Q3_K_L", DType::q3_k},   {14, "Q4_K_S", DType::q4_k},
    {15, "Q4_K_M", DType::q4_k},     {16, "Q5_K_S", DType::q5_k},   {17, "Q5_K_M", DType::q5_k},   {18, "Q6_K", DType::q6_k},
    {19, "IQ2_XXS", DType::iq2_xxs}, {20, "IQ2_XS", DType::iq2_xs}, {21, "Q2_K_S", DType::q2_k},   {22, "IQ3_XS", DType::iq3_s},
    {23, "IQ3_XXS", DType::iq3_xxs}, {24, "IQ1_S", DType::iq1_s},   {25, "IQ4_NL", DType::iq4_nl}, {26, "IQ3_S", DType::iq3_s},
    {27, "IQ3_M", DType::iq3_s},     {28, "IQ2_S", DType::iq2_s},   {29, "IQ2_M", DType::iq2_s},   {30, "IQ4_XS", DType::iq4_xs},
    {31, "IQ1_M", DType::iq1_m},     {32, "BF16", DType::bf16},     {36, "TQ1_0", DType::tq1_0},   {37, "TQ2_0", DType::tq2_0},
    {38, "MXFP4", DType::mxfp4},     {39, "NVFP4", DType::nvfp4},
};

const FileType* named_type(const Checkpoint& c) {
  if (c.container() != "gguf") return nullptr;
  const auto id = c.metadata().integer_or("general.file_type", -1);
  for (const FileType& f : kFileTypes)
    if (id && f.id == *id) return &f;
  return nullptr;
}

int64_t elements(const TensorEntry& t) {
  int64_t n = 1;
  for (int i = 0; i < t.rank; ++i) n *= t.shape[size_t(i)];
  return n;
}

/// What a tensor counts as. Bytes NAME_blocks and NAME_scales are MXFP4: two codes a byte, and what belongs to them.
std::pair<tensor::DType, int64_t> contents(const Checkpoint& c, const TensorEntry& t) {
  const auto beside = [&](std::string_view own, std::string_view other) {
    return t.name.ends_with(own) && c.find(t.name.substr(0, t.name.size() - own.size()) + std::string(other));
  };
  if (t.dtype == tensor::DType::u8 && beside("_blocks", "_scales")) return {tensor::DType::mxfp4, 2 * elements(t)};
  if (t.dtype == tensor::DType::u8 && beside("_scales", "_blocks")) return {tensor::DType::mxfp4, 0};
  return {t.dtype, elements(t)};
}

}  // namespace

double format_bits(DType t) {
  const tensor::Format& f = tensor::format(t);
  return 8.0 * f.bytes / f.block;
}

Summary summarize(const Checkpoint& c) {
  Summary s;
  for (const TensorEntry& t : c.tensors()) {
    const auto [dtype, n] = contents(c, t);
    auto row = std::find_if(s.types.begin(), s.types.end(), [d = dtype](const TypeTotals& r) { return r.dtype == d; });
    if (row == s.types.end()) row = s.types.insert(row, {.dtype = dtype});
    row->tensors += 1, row->elements += n, row->bytes += int64_t(t.bytes);
    s.parameters += n, s.bytes += int64_t(t.bytes);
  }
  std::sort(s.types.begin(), s.types.end(), [](const TypeTotals& a, const TypeTotals& b) { return a.bytes > b.bytes; });
  if (const FileType* f = named_type(c)) {
    s.file_type = f->name;
    s.nominal_bits = format_bits(f->main);
  } else if (!s.types.empty()) {
    const auto most = std::max_element(s.types.begin(), s.types.end(),
                                       [](const TypeTotals& a, const TypeTotals& b) { return a.elements < b.elements; });
    s.file_type = tensor::format(most->dtype).name;
    s.nominal_bits = format_bits(most->dtype);
  }
  s.bits = s.parameters ? 8.0 * double(s.bytes) / double(s.parameters) : 0;
  return s;
}

}  // namespace isotope::weights
