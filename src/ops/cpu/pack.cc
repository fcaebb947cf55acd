// Packing: checks a tensor, chooses its layout, writes tile after tile.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "ops/cpu/pack_units.h"
#include "ops/cpu/packed_weight.h"

namespace isotope::ops {

using kernels::cpu::kBlock;
using kernels::cpu::kLanes;
using kernels::cpu::Pack;
using kernels::cpu::PackRow;
using tensor::DType;

namespace {

/// Layouts in the order in which they are tried; the last one holds everything.
struct Choice {
  DType dtype;
  Pack fast, exact;
  Pack compact = Pack::count_;  ///< tried first where suits() says yes: several blocks behind one scale
};
constexpr Choice kChoices[] = {
    {DType::f32, Pack::f32, Pack::f32},         {DType::f16, Pack::f16, Pack::f16},         {DType::bf16, Pack::bf16, Pack::bf16},
    {DType::f8_e4m3, Pack::bf16, Pack::bf16},   {DType::f8_e5m2, Pack::bf16, Pack::bf16},   {DType::q4_0, Pack::q4_0, Pack::f32},
    {DType::q4_1, Pack::q4_1, Pack::f32},       {DType::q5_0, Pack::q5_0, Pack::f32},       {DType::q5_1, Pack::q5_1, Pack::f32},
    {DType::q8_0, Pack::q8_0, Pack::f32},       {DType::q2_k, Pack::q2_k, Pack::f32},       {DType::q3_k, Pack::q3_k, Pack::f32},
    {DType::q4_k, Pack::q4_k, Pack::f32},       {DType::q5_k, Pack::q5_k, Pack::f32},       {DType::q6_k, Pack::q6_k, Pack::f32},
    {DType::iq4_nl, Pack::iq4_nl, Pack::f32},   {DType::iq4_xs, Pack::iq4_xs, Pack::f32},   {DType::mxfp4, Pack::mxfp4, Pack::f32},
    {DType::nvfp4, Pack::nvfp4, Pack::f32},     {DType::iq1_s, Pack::i8g16, Pack::f32},     {DType::iq1_m, Pack::i8g16, Pack::f32},
    {DType::iq2_xxs, Pack::i8g16, Pack::f32},   {DType::iq2_xs, Pack::i8g16, Pack::f32},    {DType::iq2_s, Pack::i8g16, Pack::f32},
    {DType::iq3_xxs, Pack::i8g16, Pack::f32},   {DType::iq3_s, Pack::i8g16, Pack::f32},     {DType::tq1_0, Pack::i8g16, Pack::f32},
    {DType::tq2_0, Pack::i8g16, Pack::f32},     {DType::i8_g16, Pack::i8g16, Pack::f32, Pack::i8g128},
    {DType::f8_g32, Pack::bf16, Pack::f32, Pack::f8g128},
    {DType::i4_g32, Pack::i4g32, Pack::f32, Pack::i4g128},
    {DType::e2m1_g16, Pack::e2m1g16, Pack::f32},
};

const Choice* choice(DType t) {
  for (const Choice& c : kChoices)
    if (c.dtype == t) return &c;
  return nullptr;
}

struct Source {
  const HostTensor& t;
  std::span<const int32_t> rows;
  int64_t n, k;
  size_t row_bytes;
  const uint8_t* row(int64_t i) const {
    const int64_t r = rows.empty() ? i : int64_t(rows[size_t(i)]);
    return static_cast<const uint8_t*>(t.data) + size_t(r) * row_bytes;
  }
};

tl::unexpected<Error> bad(Code code, const HostTensor& t, std::string what, std::string remedy) {
  std::string shape;
  for (int i = 0; i < t.rank; ++i) shape += fmt::format("{}{}", i ? ", " : "", t.shape[size_t(i)]);
  return fail(code, fmt::format("{} weight [{}]: {}", tensor::format(t.dtype).name, shape, what), "packing weights", std::move(remedy));
}

Result<Source> check(const HostTensor& t, std::span<const int32_t> rows) {
  const tensor::Format& f = tensor::format(t.dtype);
  if (!choice(t.dtype)) return bad(Code::unsupported, t, "this format is not a matrix weight", "save the tensor as F32, F16 or BF16 and load that");
  if (t.rank < 1 || t.rank > 4) return bad(Code::data_loss, t, fmt::format("rank {}", t.rank), "check the file");
  int64_t source_rows = 1;
  for (int i = 0; i < t.rank; ++i) {
    if (t.shape[size_t(i)] <= 0) return bad(Code::data_loss, t, "a dimension is not positive", "check the file");
    if (i + 1 < t.rank && __builtin_mul_overflow(source_rows, t.shape[size_t(i)], &source_rows))
      return bad(Code::data_loss, t, "the number of rows overflows", "check the file");
  }
  const int64_t k = t.cols();
  if (k % f.block != 0) return bad(Code::data_loss, t, fmt::format("rows of {} elements do not fill blocks of {}", k, f.block), "check the file");
  size_t row_bytes = 0, all = 0;
  if (__builtin_mul_overflow(size_t(k / f.block), size_t(f.bytes), &row_bytes) || __builtin_mul_overflow(row_bytes, size_t(source_rows), &all) ||
      size_t(k) > SIZE_MAX / 1024 || all > t.bytes || !t.data)
    return bad(Code::data_loss, t, fmt::format("{} bytes are not enough for its shape", t.bytes), "check that the file is complete");
  for (const int32_t r : rows)
    if (r < 0 || r >= source_rows) return bad(Code::invalid_argument, t, fmt::format("row {} is outside", r), "select rows of the tensor");
  return Source{t, rows, rows.empty() ? source_rows : int64_t(rows.size()), k, row_bytes};
}

/// Whether every run of 128 columns has one scale (and zero point) that the compact layout can hold.
bool suits(Pack pack, const Source& s) {
  const tensor::Format& f = tensor::format(s.t.dtype);
  const size_t head = s.t.dtype == DType::i4_g32 ? 5 : s.t.dtype == DType::f8_g32 ? 4 : 8;
  if (pack == Pack::count_ || (pack != Pack::f8g128 && s.k % pack_row(pack).unit_k())) return false;
  for (int64_t i = 0; i < s.n; ++i) {
    const uint8_t *row = s.row(i), *end = row + s.row_bytes;
    for (int64_t b = 0; row < end; ++b, row += f.bytes) {
      const uint8_t* first = row - b % 4 * f.bytes;
      if (std::memcmp(first, row, head) != 0) return false;
      if (pack == Pack::i8g128 && std::memcmp(row, row + 4, 4) != 0) return false;
      if (pack == Pack::f8g128 && !read_f8_scale(row)) return false;
    }
  }
  return true;
}

// One tile whose rows have codes of their own.
void pack_codes(const Source& s, const PackRow& p, ReadUnit read, int64_t tile, std::byte* to) {
  std::array<UnitRow, kLanes> unit{};
  const size_t source_unit = size_t(p.unit_k() / tensor::format(s.t.dtype).block) * size_t(tensor::format(s.t.dtype).bytes);
  for (int64_t u = 0; u < s.k / p.unit_k(); ++u, to += p.unit_bytes()) {
    for (int lane = 0; lane < kLanes && tile * kLanes + lane < s.n; ++lane) read(s.row(tile * kLanes + lane) + size_t(u) * source_unit, unit[size_t(lane)]);
    write_unit(p, unit, to);
  }
}

// One tile from float32 values. False if i8g16 cannot hold them.
struct FloatTile {
  std::vector<float> row;
  std::vector<UnitRow> units;  // i8g16: [lanes, k / 32]
};

Result<bool> pack_values(const Source& s, const PackRow& p, int64_t tile, FloatTile& scratch, std::byte* to) {
  scratch.row.resize(size_t(s.k));
  const int64_t units = s.k / kBlock;
  const int64_t first = tile * p.rows();
  if (p.integer()) scratch.units.assign(size_t(units) * kLanes, UnitRow{});
  for (int lane = 0; lane < p.rows() && first + lane < s.n; ++lane) {
    ISO_CHECK_OK(tensor::dequantize(s.t.dtype, s.row(first + lane), scratch.row));
    if (p.integer()) {
      for (int64_t u = 0; u < units; ++u)
        if (!to_i8g16(std::span<const float, 32>(scratch.row.data() + u * kBlock, 32), scratch.units[size_t(u * kLanes + lane)])) return false;
      continue;
    }
    for (int64_t k = 0; k < s.k; ++k) {
      const float v = scratch.row[size_t(k)];
      std::byte* at = to + (size_t(k) * size_t(p.rows()) + size_t(lane)) * size_t(p.bits / 8);
      const uint16_t half = p.pack == Pack::bf16 ? tensor::f32_to_bf16(v) : 0;
      if (p.pack == Pack::f32) std::memcpy(at, &v, 4);
      else std::memcpy(at, &half, 2);
    }
  }
  if (p.integer())
    for (int64_t u = 0; u < units; ++u, to += p.unit_bytes())
      write_unit(p, std::span<const UnitRow, kLanes>(scratch.units.data() + u * kLanes, kLanes), to);
  return true;
}

// One tile of E4M3 behind scales.
void pack_f8(const Source& s, const PackRow& p, int64_t tile, std::byte* to) {
  constexpr int kStep = 36;  // bytes of a block of 32
  const int64_t first = tile * p.rows();
  for (int lane = 0; lane < p.rows() && first + lane < s.n; ++lane) {
    const uint8_t* row = s.row(first + lane);
    for (int64_t k = 0; k < s.k; k += kBlock, row += kStep) {
      std::byte* unit = to + k / p.unit_k() * p.unit_bytes();
      const float scale = *read_f8_scale(row);
      std::memcpy(unit + 4 * lane, &scale, 4);
      std::byte* codes = unit + 4 * p.rows() + (k % p.unit_k()) * p.rows() + lane;
      for (int i = 0; i < kBlock; ++i, codes += p.rows()) *codes = std::byte(row[4 + i]);
    }
  }
}

// One tile of 16-bit floats as they are.
void pack_halves(const Source& s, const PackRow& p, int64_t tile, std::byte* to) {
  const int64_t first = tile * p.rows();
  for (int lane = 0; lane < p.rows() && first + lane < s.n; ++lane) {
    const uint8_t* row = s.row(first + lane);
    for (int64_t k = 0; k < s.k; ++k) std::memcpy(to + (size_t(k) * size_t(p.rows()) + size_t(lane)) * 2, row + size_t(k) * 2, 2);
  }
}

// Source bytes between two calls of RowsDone: small against a model, large against the cost of giving pages back.
constexpr int64_t kDoneBytes = int64_t{4} << 20;

// False if this pack cannot hold the tensor.
Result<bool> pack_all(const Source& s, PackedWeight& w, const RowsDone& done) {
  const PackRow& p = w.row();
  // Values alone do not always tell a code of eight bits from its scale; this format has both.
  const ReadUnit read = w.pack == Pack::i8g16 && s.t.dtype == DType::i8_g16 ? read_i8_g16 : unit_reader(w.pack);
  const bool f8 = w.pack == Pack::f8g128;
  const bool as_is = s.t.dtype == DType::f16 || s.t.dtype == DType::bf16;
  FloatTile scratch;
  int64_t told = 0;
  for (int64_t t = 0; t < w.tiles(); ++t) {
    if (const int64_t read_rows = t * p.rows(); done && (read_rows - told) * int64_t(s.row_bytes) >= kDoneBytes) {
      done(told, read_rows - told);
      told = read_rows;
    }
    std::byte* to = w.memory.data + size_t(t) * w.tile_bytes;
    if (f8) {
      pack_f8(s, p, t, to);
    } else if (read) {
      pack_codes(s, p, read, t, to);
    } else if (as_is) {
      pack_halves(s, p, t, to);
    } else {
      ISO_TRY(const bool ok, pack_values(s, p, t, scratch, to));
      if (!ok) return false;
    }
  }
  return true;
}

}  // namespace

size_t packed_bytes(DType t, int64_t n, int64_t k, Precision precision) {
  const Choice* c = choice(t);
  if (!c || n < 1 || k < 1) return 0;
  const bool exact = precision == Precision::exact, f8 = c->compact == Pack::f8g128;
  const bool compact = c->compact != Pack::count_ && (!exact || f8) && (f8 || k % kernels::cpu::kScaledK == 0);  // as suits() has it
  const PackRow& p = kernels::cpu::pack_row(compact ? c->compact : exact ? c->exact : c->fast);
  return p.tile_bytes(k) * size_t((n + p.rows() - 1) / p.rows());
}

Result<std::unique_ptr<Weight>> pack_weight(const HostTensor& t, std::span<const int32_t> rows, Precision precision, WeightStore* store,
                                            const RowsDone& done) {
  ISO_TRY(const Source s, check(t, rows));
  WeightStore own;
  auto w = std::make_unique<PackedWeight>();
  w->n = s.n;
  w->k = s.k;
  w->dtype = t.dtype;
  const Choice& c = *choice(t.dtype);
  // float32 is the last resort of i8g16: it holds what a hostile scale (infinity, NaN) makes of a block. E4M3 is as exact as float32 would be.
  const bool exact = precision == Precision::exact, compact = (!exact || c.compact == Pack::f8g128) && suits(c.compact, s);
  for (const Pack pack : {compact ? c.compact : exact ? c.exact : c.fast, Pack::f32}) {
    w->pack = pack;
    w->tile_bytes = w->row().tile_bytes(s.k);
    if (__builtin_mul_overflow(w->tile_bytes, size_t(w->tiles()), &w->bytes))
      return bad(Code::resource_exhausted, t, "its packed size overflows", "check the file");
    ISO_TRY(w->memory, (store ? store : &own)->take(w->bytes));
    ISO_TRY(const bool packed, pack_all(s, *w, done));
    if (packed) return w;
  }
  return bad(Code::internal, t, "no layout holds it", "report this");
}

}  // namespace isotope::ops
