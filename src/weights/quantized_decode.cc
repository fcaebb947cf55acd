#include "weights/quantized_decode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tensor/block.h"

namespace isotope::weights {

using tensor::DType;
using tensor::HostTensor;

namespace {

constexpr int kGroup = 16, kBlock = 32;
constexpr int kAwqPlace[8] = {0, 4, 1, 5, 2, 6, 3, 7};  ///< of each of eight columns in their word

bool there(const HostTensor& t) { return t.rank > 0; }

std::string shape_of(const HostTensor& t) { return fmt::format("[{}]", fmt::join(std::span(t.shape).first(size_t(std::max(t.rank, 0))), ", ")); }

tl::unexpected<Error> bad(const std::string& name, std::string what) {
  return fail(Code::data_loss, std::move(what), "quantized matrix " + name, "use an intact checkpoint");
}

/// Scales as a grid over the matrix: one value covers `rows` rows and `columns` columns.
struct Grid {
  int64_t down = 1, across = 1;  ///< values
  int64_t rows = 1, columns = 1;
};

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// How many of n one of `count` scales covers, 0 if that does not come out even. Where FP8 has blocks, those of the stated size or 128 may be cut at the end.
int64_t side(int64_t n, int64_t count, bool floats, int64_t stated) {
  if (stated > 0 && count > 1 && count < n && count == ceil_div(n, stated)) return stated;
  if (floats && count < n && count == ceil_div(n, 128)) return 128;
  return n % count ? 0 : n / count;
}

/// The grid of the scales of one matrix. Shapes: [], [1], [n], [n, 1], [n, groups], [row blocks, column blocks]; for gptq and awq [groups, n].
Result<Grid> grid_of(const QuantizedParts& p, const std::string& name) {
  const HostTensor& s = p.scales;
  const int64_t count = s.elements();
  if (p.matrices < 1 || count % p.matrices) return bad(name, fmt::format("{} scales for {} matrices", count, p.matrices));
  if (p.layout == Layout::gptq || p.layout == Layout::awq) {
    if (s.rank != 2 || s.shape[1] != p.n || s.shape[0] < 1 || (p.k % s.shape[0] != 0 && !there(p.columns)))
      return bad(name, fmt::format("scales are {}, not groups of {} columns by {} rows", shape_of(s), p.k, p.n));
    return Grid{p.n, s.shape[0], 1, p.k % s.shape[0] ? p.k : p.k / s.shape[0]};
  }
  const int64_t each = count / p.matrices;
  if (each == 1) return Grid{1, 1, p.n, p.k};
  const bool table = s.rank >= 2;
  const int64_t down = table ? s.shape[size_t(s.rank - 2)] : each, across = table ? s.shape[size_t(s.rank - 1)] : 1;
  if (down < 1 || across < 1 || down * across != each || down > p.n || across > p.k) return bad(name, fmt::format("scales are {} for [{}, {}]", shape_of(s), p.n, p.k));
  const bool floats = p.layout == Layout::floats8;
  const Grid g{down, across, side(p.n, down, floats, p.block[0]), side(p.k, across, floats, p.block[1])};
  if (g.rows == 0 || g.columns == 0) return bad(name, fmt::format("scales are {} for [{}, {}]", shape_of(s), p.n, p.k));
  return g;
}

Result<std::vector<float>> numbers(const HostTensor& t) {
  std::vector<float> v(size_t(t.elements()));
  if (t.dtype == DType::u8) {  // E8M0 that calls itself bytes
    for (size_t i = 0; i < v.size(); ++i) v[i] = tensor::f8_e8m0_to_f32(static_cast<const uint8_t*>(t.data)[i]);
    return v;
  }
  ISO_CHECK_OK(tensor::dequantize(t.dtype, t.data, v));
  return v;
}

uint32_t word(const HostTensor& t, int64_t i) {
  uint32_t w;
  std::memcpy(&w, static_cast<const std::byte*>(t.data) + size_t(i) * 4, 4);
  return w;
}

/// Codes of matrix row r, and zero points, as whole numbers.
class Codes {
 public:
  Codes(const QuantizedParts& p, Grid g) : p_(p), g_(g), per_word_(32 / p.bits), mask_(p.bits == 32 ? ~0u : (1u << p.bits) - 1) {}

  void row(int64_t r, std::span<int> out) const {
    const auto* bytes = static_cast<const uint8_t*>(p_.codes.data);
    for (int64_t c = 0; c < p_.k; ++c) {
      int& q = out[size_t(c)];
      switch (p_.layout) {
        case Layout::bytes: q = int8_t(bytes[r * p_.k + c]); break;
        case Layout::fp4: q = tensor::kE2M1[bytes[(r * p_.k + c) / 2] >> (c % 2 * 4) & 15]; break;
        case Layout::packed_rows: q = field(p_.codes, r * p_.codes.cols() + c / per_word_, c % per_word_); break;
        case Layout::gptq: q = field(p_.codes, c / per_word_ * p_.n + r, c % per_word_); break;
        case Layout::awq: q = field(p_.codes, c * (p_.n / 8) + r / 8, kAwqPlace[r % 8]); break;
        case Layout::floats8: q = bytes[r * p_.k + c]; break;
      }
    }
  }

  int zero(int64_t r, int64_t group) const {
    switch (p_.layout) {
      case Layout::packed_rows:
        if (!there(p_.zeros)) return 1 << (p_.bits - 1);
        return field(p_.zeros, r / per_word_ * g_.across + group, r % per_word_);
      case Layout::gptq: return field(p_.zeros, group * (p_.n / per_word_) + r / per_word_, r % per_word_) + (p_.zero_less_one ? 1 : 0);
      case Layout::awq: return field(p_.zeros, group * (p_.n / 8) + r / 8, kAwqPlace[r % 8]);
      default: return 0;
    }
  }

 private:
  int field(const HostTensor& t, int64_t index, int64_t place) const { return int(word(t, index) >> (place * p_.bits) & mask_); }

  const QuantizedParts& p_;
  Grid g_;
  int per_word_;
  uint32_t mask_;
};

bool turned(Layout l) { return l == Layout::gptq || l == Layout::awq; }

/// Scale of each column of one row.
class Scales {
 public:
  static Result<Scales> make(const QuantizedParts& p, Grid g) {
    Scales s{p, g};
    ISO_TRY(s.values_, numbers(p.scales));
    if (p.layout == Layout::fp4) {
      float all = 1;
      if (there(p.global)) {
        ISO_TRY(const std::vector<float> v, numbers(p.global));
        if (v.size() != 1) return fail(Code::data_loss, fmt::format("{} scales for all of a matrix", v.size()), "quantized matrix", "use an intact checkpoint");
        all = v[0];
      }
      for (float& v : s.values_) v = p.divide_by_global ? v / all : v * all;
      for (float& v : s.values_) v *= 0.5f;  // codes are doubled
    }
    if (there(p.columns)) s.groups_.resize(size_t(p.k));
    for (size_t c = 0; c < s.groups_.size(); ++c) {
      const int64_t group = int32_t(word(p.columns, int64_t(c)));
      if (group < 0 || group >= g.across) return fail(Code::data_loss, fmt::format("column {} belongs to group {} of {}", c, group, g.across), "quantized matrix", "use an intact checkpoint");
      s.groups_[c] = group;
    }
    return s;
  }
  int64_t group(int64_t column) const { return groups_.empty() ? column / g_.columns : groups_[size_t(column)]; }
  float at(int64_t matrix, int64_t row, int64_t group) const {
    const int64_t at = turned(p_.layout) ? group * g_.down + row : matrix * g_.down * g_.across + row / g_.rows * g_.across + group;
    return values_[size_t(at)];
  }

 private:
  Scales(const QuantizedParts& p, Grid g) : p_(p), g_(g) {}
  const QuantizedParts& p_;
  Grid g_;
  std::vector<float> values_;
  std::vector<int64_t> groups_;
};

Result<void> check_words(const QuantizedParts& p, const std::string& name) {
  if (p.bits != 4 && p.bits != 8)
    return fail(Code::unsupported, fmt::format("codes of {} bits", p.bits), "quantized matrix " + name, "4 and 8 bits are supported");
  if (p.layout == Layout::awq && p.bits != 4) return fail(Code::unsupported, fmt::format("AWQ codes of {} bits", p.bits), "quantized matrix " + name, "4 bits are supported");
  const int64_t per = 32 / p.bits, cols = p.codes.cols();
  const bool fits = p.codes.rank == 2 && (p.layout == Layout::packed_rows ? p.codes.shape[0] == p.n && cols == ceil_div(p.k, per)
                                          : p.layout == Layout::gptq      ? p.codes.shape[0] * per == p.k && cols == p.n
                                                                          : p.codes.shape[0] == p.k && cols * 8 == p.n);
  if (!fits || p.codes.dtype != DType::i32) return bad(name, fmt::format("codes are {} {} for [{}, {}]", tensor::format(p.codes.dtype).name, shape_of(p.codes), p.n, p.k));
  return {};
}

Result<void> check_zeros(const QuantizedParts& p, Grid g, const std::string& name) {
  const int64_t per = 32 / p.bits, all = ceil_div(p.n, per) * g.across;
  if (!there(p.zeros)) return turned(p.layout) ? bad(name, "zero points are missing") : Result<void>();
  if (p.zeros.dtype != DType::i32 || p.zeros.elements() != all || (turned(p.layout) && p.n % per))
    return bad(name, fmt::format("zero points are {} {} for {} rows in {} groups", tensor::format(p.zeros.dtype).name, shape_of(p.zeros), p.n, g.across));
  return {};
}

Result<void> decode_floats(const QuantizedParts& p, Grid g, const Scales& s, std::span<std::byte> out) {
  const auto* codes = static_cast<const uint8_t*>(p.codes.data);
  const DType type = decoded_type(p);
  std::byte* to = out.data();
  for (int64_t r = 0; r < p.matrices * p.n; ++r) {
    const int64_t matrix = r / p.n, row = r % p.n;
    for (int64_t c = 0; c < p.k; ++c) {
      const float scale = s.at(matrix, row, c / g.columns);
      const uint8_t code = codes[r * p.k + c];
      if (type == DType::f32) {
        const float v = tensor::f8_e4m3_to_f32(code) * scale;
        std::memcpy(to, &v, 4), to += 4;
        continue;
      }
      if (c % kBlock == 0) std::memcpy(to, &scale, 4), to += 4;
      *to++ = std::byte(code);
    }
  }
  return {};
}

/// Pairs of E2M1 as the file has them, into blocks whose halves share bytes.
void put_nibbles(const uint8_t* codes, int64_t first, std::byte* to) {
  const auto code = [&](int64_t c) { return codes[(first + c) / 2] >> ((first + c) % 2 * 4) & 15; };
  for (int64_t i = 0; i < kBlock / 2; ++i) to[i] = std::byte(code(i) | code(i + kBlock / 2) << 4);
}

/// mxfp4 and e2m1_g16.
Result<void> decode_e2m1(const QuantizedParts& p, Grid g, const Scales& s, const std::string& name, std::span<std::byte> out) {
  const auto* codes = static_cast<const uint8_t*>(p.codes.data);
  const auto* exponents = static_cast<const uint8_t*>(p.scales.data);
  const bool mx = decoded_type(p) == DType::mxfp4;
  std::byte* to = out.data();
  for (int64_t r = 0; r < p.matrices * p.n; ++r)
    for (int64_t c = 0; c < p.k; c += kBlock, to += kBlock / 2) {
      if (mx) {
        const uint8_t e = exponents[r * g.across + c / kBlock];
        if (e == 0xff) return bad(name, fmt::format("row {} column {}: the scale is NaN", r, c));
        *to++ = std::byte(e);
      } else {
        for (int half = 0; half < 2; ++half, to += 4) {
          const float scale = s.at(r / p.n, r % p.n, s.group(c + half * kGroup));
          std::memcpy(to, &scale, 4);
        }
      }
      put_nibbles(codes, r * p.k + c, to);
    }
  return {};
}

/// i4_g32
Result<void> decode_nibbles(const QuantizedParts& p, Grid g, const Scales& s, std::span<std::byte> out) {
  const Codes codes(p, g);
  std::vector<int> q(static_cast<size_t>(p.k));
  std::byte* to = out.data();
  for (int64_t r = 0; r < p.n; ++r) {
    codes.row(r, q);
    for (int64_t c = 0; c < p.k; c += kBlock) {
      const int64_t group = s.group(c);
      const float scale = s.at(0, r, group);
      std::memcpy(to, &scale, 4), to += 4;
      *to++ = std::byte(codes.zero(r, group));
      for (int64_t i = 0; i < kBlock / 2; ++i) *to++ = std::byte(q[size_t(c + i)] | q[size_t(c + i + kBlock / 2)] << 4);
    }
  }
  return {};
}

Result<void> decode_codes(const QuantizedParts& p, Grid g, const Scales& s, const std::string& name, std::span<std::byte> out) {
  const Codes codes(p, g);
  const DType type = decoded_type(p);
  std::vector<int> q(static_cast<size_t>(p.k));
  std::byte* to = out.data();
  for (int64_t r = 0; r < p.n; ++r) {
    codes.row(r, q);
    int zero = 0;
    float scale = 0;
    for (int64_t c = 0, group = -1; c < p.k; ++c) {
      if (s.group(c) != group) group = s.group(c), zero = codes.zero(r, group), scale = s.at(0, r, group);
      const int v = q[size_t(c)] - zero;
      if (type == DType::f32) {
        const float x = float(v) * scale;
        std::memcpy(to, &x, 4), to += 4;
        continue;
      }
      if (v < -128 || v > 127) return bad(name, fmt::format("row {} column {}: code less zero point is {}{}", r, c, v, p.symmetric ? ", and config.json says \"sym\": true" : ""));
      if (c % kBlock == 0) {
        const float second = s.at(0, r, s.group(c + kGroup));
        std::memcpy(to, &scale, 4), std::memcpy(to + 4, &second, 4), to += 8;
      }
      *to++ = std::byte(int8_t(v));
    }
  }
  return {};
}

}  // namespace

tensor::DType decoded_type(const QuantizedParts& p) {
  const auto g = grid_of(p, "");
  const int64_t columns = g ? g->columns : 1;
  if (p.k % kBlock || there(p.columns)) return DType::f32;
  if (p.layout == Layout::floats8) return columns % kBlock ? DType::f32 : DType::f8_g32;
  if (p.layout == Layout::fp4) {
    const bool powers = p.scales.dtype == DType::f8_e8m0 || p.scales.dtype == DType::u8;
    return powers && columns == kBlock && g->rows == 1 && !there(p.global) ? DType::mxfp4 : columns % kGroup ? DType::f32 : DType::e2m1_g16;
  }
  if (p.bits == 4 && columns % kBlock == 0) return DType::i4_g32;
  const bool wide = p.bits == 8 && there(p.zeros) && p.layout != Layout::bytes && !p.symmetric;  // less a zero point they may need nine bits
  return columns % kGroup || wide ? DType::f32 : DType::i8_g16;
}

Result<void> check_quantized(const QuantizedParts& p, const std::string& name) {
  if (p.n < 1 || p.k < 1) return bad(name, fmt::format("shape [{}, {}]", p.n, p.k));
  ISO_TRY(const Grid g, grid_of(p, name));
  if (there(p.columns) && (p.columns.dtype != DType::i32 || p.columns.elements() != p.k)) return bad(name, fmt::format("groups of columns are {}", shape_of(p.columns)));
  const int64_t elements = p.codes.elements(), whole = p.matrices * p.n * p.k;
  switch (p.layout) {
    case Layout::floats8: return p.codes.dtype == DType::f8_e4m3 && elements == whole ? Result<void>() : bad(name, "codes are " + shape_of(p.codes));
    case Layout::bytes: return p.codes.dtype == DType::i8 && elements == whole ? Result<void>() : bad(name, "codes are " + shape_of(p.codes));
    case Layout::fp4: return (p.codes.dtype == DType::u8 || p.codes.dtype == DType::i8) && elements * 2 == whole && p.k % 2 == 0 ? Result<void>() : bad(name, "codes are " + shape_of(p.codes));
    default: ISO_CHECK_OK(check_words(p, name)); return check_zeros(p, g, name);
  }
}

Result<void> decode_quantized(const QuantizedParts& p, const std::string& name, std::span<std::byte> out) {
  ISO_CHECK_OK(check_quantized(p, name));
  ISO_TRY(const Grid g, grid_of(p, name));
  ISO_TRY(const Scales s, Scales::make(p, g));
  if (p.layout == Layout::floats8) return decode_floats(p, g, s, out);
  switch (decoded_type(p)) {
    case DType::mxfp4: case DType::e2m1_g16: return decode_e2m1(p, g, s, name, out);
    case DType::i4_g32: return decode_nibbles(p, g, s, out);
    default: return decode_codes(p, g, s, name, out);
  }
}

}  // namespace isotope::weights
