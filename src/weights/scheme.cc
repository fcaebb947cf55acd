#include "weights/scheme.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tensor/block.h"

namespace isotope::weights {

using tensor::DType;
using tensor::HostTensor;

namespace {

constexpr Scheme kSchemes[] = {
    {"ptpc_fp8", "fp8 fp8_channel", Layout::floats8, 8, 0, 1, "E4M3, a scale for each row"},
    {"per_block_fp8", "per_block128_fp8 fp8_block", Layout::floats8, 8, 128, 128, "E4M3, a scale for each block of 128 x 128"},
    {"int8", "ptpc_int8 w8a8", Layout::bytes, 8, 0, 1, "whole numbers of 8 bits, a scale for each row"},
    {"int4", "int4_g128 w4a16", Layout::packed_rows, 4, 128, 1, "whole numbers of 4 bits, a scale for each 128"},
    {"int4_g64", "", Layout::packed_rows, 4, 64, 1, "whole numbers of 4 bits, a scale for each 64"},
    {"int4_g32", "", Layout::packed_rows, 4, 32, 1, "whole numbers of 4 bits, a scale for each 32"},
    {"mxfp4", "", Layout::fp4, 4, 32, 1, "E2M1, a power of two for each 32"},
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }
bool same(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}
bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t space = std::min(names.find(' '), names.size());
    if (same(names.substr(0, space), name)) return true;
    names.remove_prefix(std::min(space + 1, names.size()));
  }
  return false;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The scale that a group whose largest magnitude is `top` gets, and one scale number's place.
class ScaleWriter {
 public:
  ScaleWriter(DType type, std::byte* to) : type_(type), to_(to) {}
  /// Returns the value as readers will see it.
  float put(size_t at, float scale) {
    if (type_ == DType::f32) return std::memcpy(to_ + at * 4, &scale, 4), scale;
    if (type_ == DType::f8_e4m3) {
      const uint8_t code = tensor::f32_to_f8_e4m3(scale);
      return to_[at] = std::byte(code), tensor::f8_e4m3_to_f32(code);
    }
    if (type_ == DType::f8_e8m0) return to_[at] = std::byte(std::bit_cast<uint32_t>(scale) >> 23), scale;  // powers of two only
    const uint16_t half = type_ == DType::f16 ? tensor::f32_to_f16(scale) : tensor::f32_to_bf16(scale);
    std::memcpy(to_ + at * 2, &half, 2);
    return type_ == DType::f16 ? tensor::f16_to_f32(half) : tensor::bf16_to_f32(half);
  }

 private:
  DType type_;
  std::byte* to_;
};

/// Largest magnitude of a group to its scale. All-zero groups get a scale that is not zero, for readers that divide by it.
float scale_for(const Scheme& s, float top) {
  switch (s.layout) {
    case Layout::floats8:
      return top > 0 ? top / 448.0f : 1.0f;
    case Layout::bytes:
      return top > 0 ? top / 127.0f : 1.0f;
    case Layout::packed_rows:
      return top > 0 ? top / 7.5f : 1.0f;
    default:
      return top > 0 ? std::ldexp(1.0f, std::clamp(std::ilogb(top) - 2, -126, 127)) : 0x1p-126f;  // the largest lies in E2M1's topmost binade
  }
}

void put_code(const Scheme& s, float v, int64_t column, uint8_t* row) {
  const auto whole = [&](int low, int top) { return std::clamp(int(std::lrintf(std::clamp(v, -1e6f, 1e6f))), low, top); };
  switch (s.layout) {
    case Layout::floats8:
      row[column] = tensor::f32_to_f8_e4m3(v);
      return;
    case Layout::bytes:
      row[column] = uint8_t(int8_t(whole(-128, 127)));
      return;
    case Layout::packed_rows:
      row[column / 2] = uint8_t(row[column / 2] | (whole(-8, 7) + 8) << (column % 2 * 4));
      return;  // little-endian words
    default:
      row[column / 2] = uint8_t(row[column / 2] | tensor::f32_to_e2m1(v) << (column % 2 * 4));
  }
}

int64_t code_bytes(const Scheme& s, int64_t k) { return k * s.bits / 8; }

}  // namespace

std::span<const Scheme> schemes() { return kSchemes; }

const Scheme* scheme_by_name(std::string_view name) {
  for (const Scheme& s : kSchemes)
    if (same(s.name, name) || lists(s.aliases, name)) return &s;
  return nullptr;
}

std::string scheme_names() {
  std::string out;
  for (const Scheme& s : kSchemes) out.append(out.empty() ? "" : " ").append(s.name);
  return out;
}

bool fits(const Scheme& s, int64_t k) { return k > 0 && k % 32 == 0 && (s.columns == 0 || s.layout == Layout::floats8 || k % s.columns == 0); }

QuantizedParts parts_of(const Scheme& s, int64_t matrices, int64_t n, int64_t k, DType source) {
  QuantizedParts p{.layout = s.layout, .bits = s.bits, .matrices = matrices, .n = n, .k = k};
  if (s.layout == Layout::floats8 && s.columns) p.block = {s.rows, s.columns};
  const bool stacked = matrices > 1;
  const int64_t words = s.layout == Layout::packed_rows ? 4 : 1;
  const auto shape = [&](int64_t rows, int64_t columns) {
    return stacked ? std::array<int64_t, 4>{matrices, rows, columns, 0} : std::array<int64_t, 4>{rows, columns, 0, 0};
  };
  constexpr DType kCodes[] = {DType::f8_e4m3, DType::i8, DType::i32, DType::i32, DType::i32, DType::u8};
  p.codes = {.dtype = kCodes[size_t(s.layout)],
             .bytes = size_t(matrices * n * code_bytes(s, k)),
             .shape = shape(n, code_bytes(s, k) / words),
             .rank = stacked ? 3 : 2};
  const DType scale = s.layout == Layout::packed_rows ? (source == DType::f16 ? DType::f16 : DType::bf16)
                      : s.layout == Layout::fp4       ? (s.columns == 16 ? DType::f8_e4m3 : DType::f8_e8m0)
                                                      : DType::f32;
  const int64_t down = ceil_div(n, s.rows), across = s.columns ? ceil_div(k, s.columns) : 1;
  p.scales = {.dtype = scale, .shape = shape(down, across), .rank = stacked ? 3 : 2};
  p.scales.bytes = size_t(matrices * down * across) * size_t(tensor::format(scale).bytes);
  return p;
}

Result<QuantizedMatrix> quantize_matrix(const Scheme& s, const HostTensor& t, const std::string& name) {
  const int64_t k = t.cols(), n = t.rank >= 2 ? t.shape[size_t(t.rank - 2)] : 1, matrices = t.rows() / n;
  QuantizedMatrix m;
  m.parts = parts_of(s, matrices, n, k, t.dtype);
  m.codes.resize(m.parts.codes.bytes), m.scales.resize(m.parts.scales.bytes);
  m.parts.codes.data = m.codes.data(), m.parts.scales.data = m.scales.data();
  ScaleWriter scales(m.parts.scales.dtype, m.scales.data());
  const int64_t columns = s.columns ? s.columns : k, across = ceil_div(k, columns), down = ceil_div(n, s.rows);
  const size_t row_bytes = tensor::row_bytes(t.dtype, k);
  std::vector<float> x(size_t(std::min(s.rows, n) * k));
  std::vector<float> top(static_cast<size_t>(across));
  for (int64_t matrix = 0; matrix < matrices; ++matrix)
    for (int64_t first = 0; first < n; first += s.rows) {
      const int64_t rows = std::min(s.rows, n - first), at = matrix * n + first;
      ISO_CHECK_OK(
          tensor::dequantize(t.dtype, static_cast<const std::byte*>(t.data) + size_t(at) * row_bytes, std::span(x).first(size_t(rows * k))));
      std::fill(top.begin(), top.end(), 0.0f);
      for (int64_t i = 0; i < rows * k; ++i) {
        const float a = std::fabs(x[size_t(i)]);
        if (!(a < INFINITY))
          return fail(Code::data_loss, fmt::format("row {} column {} is {}", at + i / k, i % k, x[size_t(i)]), "tensor " + name,
                      "use a checkpoint without such values, or leave the tensor out");
        float& group = top[size_t(i % k / columns)];
        group = std::max(group, a);
      }
      for (int64_t c = 0; c < across; ++c)
        top[size_t(c)] = scales.put(size_t((matrix * down + first / s.rows) * across + c), scale_for(s, top[size_t(c)]));
      for (int64_t r = 0; r < rows; ++r) {
        auto* row = reinterpret_cast<uint8_t*>(m.codes.data()) + (at + r) * code_bytes(s, k);
        for (int64_t c = 0; c < k; ++c) {
          const float scale = top[size_t(c / columns)];  // 0 where the scale's type holds nothing so small
          put_code(s, scale > 0 ? x[size_t(r * k + c)] / scale : 0.0f, c, row);
        }
      }
    }
  return m;
}

}  // namespace isotope::weights
