#include "ops/cpu/linear.h"

#include <algorithm>

#include "base/check.h"
#include "ops/cpu/source_rows.h"

namespace isotope::ops {

using kernels::cpu::GemmArgs;
using kernels::cpu::GemmKernels;
using kernels::cpu::kBlock;
using kernels::cpu::KernelTable;
using kernels::cpu::kRecordBytes;

namespace {

// Rough costs, for a fair cut only.
constexpr int64_t kQuantizeBlockCycles = 25, kQuantizeRowBlockCycles = 50, kBytesPerCycle = 8, kBlockRowCycles = 13, kFloatRowCycles = 4;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
const PackedWeight& packed(const LinearJob& j) { return static_cast<const PackedWeight&>(*j.w); }

int64_t tile_cost(const LinearJob& j, int64_t rows) {
  const PackedWeight& w = packed(j);
  const int64_t compute = w.row().integer() ? ceil_div(w.k, kBlock) * kBlockRowCycles : w.k * kFloatRowCycles;
  return (std::max(int64_t(w.tile_bytes) / kBytesPerCycle, rows * compute) + 1) * (j.up ? 2 : 1);
}

/// Tiles that belong together: what is quantized goes by blocks of 32, two tiles.
int64_t unit(const LinearJob& j) { return j.quantized_out ? 2 : 1; }

/// All tiles of all jobs, one after another, cut by cost.
template <class Job>
class Tiles {
 public:
  explicit Tiles(std::span<const Job> jobs) : jobs_(jobs) {
    for (const Job& j : jobs) count_ += packed(j).tiles(), cost_ += ceil_div(packed(j).tiles(), unit(j)) * unit(j) * tile_cost(j, j.out.rows);
  }
  int64_t count() const { return count_; }
  int64_t cost() const { return cost_; }

  /// Calls f(job, first tile, one past the last) for each run of tiles in part `i` of `parts`.
  template <class F>
  void part(int64_t i, int64_t parts, F&& f) const {
    const auto cut = [&](int64_t p) { return int64_t(__int128(cost_) * p / parts); };
    const int64_t from = cut(i), to = cut(i + 1);
    int64_t before = 0;
    for (const Job& j : jobs_) {
      const int64_t all = packed(j).tiles(), each = tile_cost(j, j.out.rows) * unit(j), n = ceil_div(all, unit(j));
      // A tile belongs to the part in which its cost begins.
      const int64_t a = std::clamp(ceil_div(std::max<int64_t>(from - before, 0), each), int64_t{0}, n);
      const int64_t b = std::clamp(ceil_div(std::max<int64_t>(to - before, 0), each), int64_t{0}, n);
      if (a < b) f(j, a * unit(j), std::min(all, b * unit(j)));
      before += n * each;
    }
  }

 private:
  std::span<const Job> jobs_;
  int64_t count_ = 0, cost_ = 0;
};

struct Input {
  Tensor x;
  std::byte* quantized;
  kernels::cpu::Panels panels;
  int64_t blocks, pass_bytes;
  std::byte* panel(int64_t row) const { return quantized + size_t(row) * size_t(blocks) * kRecordBytes; }  // row is the first of a panel
};

// Records [a, b) of all records of all panels, in memory order; a record is a block of a panel.
void quantize_records(const KernelTable& t, const Input& in, int64_t a, int64_t b) {
  while (a < b) {
    const int64_t block = a % in.blocks, count = std::min(in.blocks - block, b - a);
    const kernels::cpu::Panel p = in.panels[a / in.blocks];
    const int64_t k0 = block * kBlock, k1 = std::min(in.x.cols, k0 + count * kBlock);
    t.gemm.quantize_panel(in.x.row(p.first) + k0, in.x.stride, p.rows, k1 - k0, in.panel(p.first) + size_t(block) * size_t(p.rows) * kRecordBytes);
    a += count;
  }
}

GemmArgs tile_args(const Input& in, const LinearJob& j, int64_t tile, int64_t end, int64_t row, int64_t row_end) {
  const PackedWeight& w = packed(j);
  const int64_t tile_rows = w.row().rows(), n0 = tile * tile_rows;
  return {.tiles = w.tile(tile),
          .tile_bytes = w.tile_bytes,
          .n = std::min(w.n, end * tile_rows) - n0,
          .k = w.k,
          .m = row_end - row,
          .quantized = w.row().integer() ? in.panel(row) : nullptr,
          .x = in.x.data ? in.x.row(row) : nullptr,
          .x_stride = in.x.stride,
          .out = j.out.data ? j.out.row(row) + n0 : nullptr,
          .out_stride = j.out.stride,
          .bias = j.bias.empty() ? nullptr : j.bias.data() + n0,
          .up_tiles = j.up ? static_cast<const PackedWeight&>(*j.up).tile(tile) : nullptr,
          .up_bias = j.up_bias.empty() ? nullptr : j.up_bias.data() + n0,
          .act = j.act};
}

// Results that only a quantized projection reads: some columns of a panel at a time, from the first-level cache into the panel's records.
void run_quantized_tiles(const KernelTable& t, const Input& in, const LinearJob& j, int64_t tile, int64_t end, int64_t row, int64_t row_end) {
  constexpr int64_t kFewRows = 4, kFewColumns = 256, kColumns = 64, kStride = kColumns + kernels::cpu::kLanes;
  alignas(64) float part[2 * kernels::cpu::kMaxPanelRows * kStride];
  static_assert(kFewRows * kFewColumns <= kernels::cpu::kMaxPanelRows * kStride);
  const GemmKernels& g = t.gemm;
  const size_t row_bytes = kernels::cpu::quantized_bytes(1, j.out.cols);
  const bool few = row_end - row <= kFewRows;
  const int64_t step = (few ? kFewColumns : kColumns) / kernels::cpu::kLanes, stride = few ? kFewColumns : kStride;
  for (int64_t a = tile; a < end; a += step) {
    for (int64_t r = row; r < row_end;) {
      // Two full panels at a time, which the kernels may join.
      const int64_t two = r + 2 * in.panels.full, to = two <= row_end ? two : std::min(row_end, in.panels.of(r).first + in.panels.of(r).rows);
      GemmArgs args = tile_args(in, j, a, std::min(end, a + step), r, to);
      args.out = part;
      args.out_stride = stride;
      g.gemm[size_t(packed(j).pack)](args);
      const int64_t block = a * kernels::cpu::kLanes / kBlock;
      for (const float* from = part; r < to;) {
        const kernels::cpu::Panel p = in.panels.of(r);
        g.quantize_panel(from, stride, p.rows, args.n, j.quantized_out + size_t(p.first) * row_bytes + size_t(block * p.rows) * kRecordBytes);
        from += p.rows * stride, r += p.rows;
      }
    }
  }
}

void run_tiles(const KernelTable& t, const Input& in, const LinearJob& j, int64_t tile, int64_t end, int64_t row, int64_t row_end) {
  if (j.quantized_out) return run_quantized_tiles(t, in, j, tile, end, row, row_end);
  t.gemm.gemm[size_t(packed(j).pack)](tile_args(in, j, tile, end, row, row_end));
}

// Rows of one pass, whole panels.
int64_t pass_rows(const Input& in) {
  const int64_t rows = in.pass_bytes / std::max<int64_t>(1, in.blocks * int64_t(kRecordBytes));
  return std::max<int64_t>(in.panels.full, rows / in.panels.full * in.panels.full);
}

// Many rows: each member takes rows of its own, and the first pass over the weights finds them quantized in its own cache.
bool by_rows(const Input& in, int64_t parts) { return ceil_div(in.x.rows, in.panels.full) >= 4 * parts; }

/// The rows that make as many whole panels for each member. The members share the others by tiles, so that none waits for who has a panel more.
int64_t even_rows(const Input& in, int64_t parts) { return in.x.rows / (in.panels.full * parts) * in.panels.full * parts; }

/// Brings rows of the input into the kernels' form; nothing where that is done already.
using Prepare = const SourceRows*;

// What member `i` of `parts` computes of the first `rows`. Many tiles: a share of them for all rows. Few tiles for the team: a share of (rows, tiles).
void run_part(const KernelTable& t, const Input& in, int64_t rows, const Tiles<LinearJob>& tiles, Prepare prepare, int64_t i, int64_t parts) {
  const int64_t panels = ceil_div(rows, in.panels.full);
  const int64_t row_parts = by_rows(in, parts) ? parts : tiles.count() >= 4 * parts ? 1 : std::min(panels, ceil_div(4 * parts, tiles.count()));
  const int64_t units = by_rows(in, parts) || row_parts == 1 ? parts : row_parts * std::min(parts, tiles.count()), per_row_part = units / row_parts;
  for (int64_t u = units * i / parts; u < units * (i + 1) / parts; ++u) {
    const int64_t p = u / per_row_part;
    const int64_t begin = panels * p / row_parts * in.panels.full, end = std::min(rows, panels * (p + 1) / row_parts * in.panels.full);
    for (int64_t m = begin; m < end; m += pass_rows(in)) {
      const int64_t to = std::min(end, m + pass_rows(in));
      if (prepare) prepare->quantize(m, to, in.quantized);
      tiles.part(u % per_row_part, per_row_part, [&](const LinearJob& j, int64_t a, int64_t b) { run_tiles(t, in, j, a, b, m, to); });
    }
  }
}

// Many rows: the same number for each member, then a share of the tiles for the rest, which is prepared already.
void run_rows(const KernelTable& t, const Input& in, const Tiles<LinearJob>& tiles, Prepare prepare, int64_t i, int64_t parts) {
  const int64_t even = even_rows(in, parts);
  run_part(t, in, even, tiles, prepare, i, parts);
  if (even < in.x.rows) tiles.part(i, parts, [&](const LinearJob& j, int64_t a, int64_t b) { run_tiles(t, in, j, a, b, even, in.x.rows); });
}

/// Quantizes the whole input before any tile is computed.
void quantize_all(base::Team& team, const KernelTable& t, const Input& in, const RowSource& source, const CpuTuning& tuning) {
  const SourceRows rows(t, source);
  const int64_t n = in.x.rows, parts = team.size();
  // A row that is normed is a member's own; one that is not is cut into blocks, so that a single long row keeps the team busy.
  const bool cut_rows = source.recipe();
  const int64_t cycles = n * in.blocks * (n < in.panels.full ? kQuantizeRowBlockCycles : kQuantizeBlockCycles) * (cut_rows ? 2 : 1), records = in.panels.count() * in.blocks;
  if (parts == 1 || cycles <= tuning.linear_alone || (cut_rows && n == 1)) return rows.quantize(0, n, in.quantized);
  team.share([&](int64_t i) {
    if (cut_rows) rows.quantize(n * i / parts, n * (i + 1) / parts, in.quantized);
    else quantize_records(t, in, records * i / parts, records * (i + 1) / parts);
  });
}

}  // namespace

bool can_gate(const Weight& gate, const Weight& up) {
  const auto &a = static_cast<const PackedWeight&>(gate), &b = static_cast<const PackedWeight&>(up);
  return a.pack == b.pack && a.row().integer() && a.n == b.n && a.k == b.k;
}

bool integer(const Weight& w) { return static_cast<const PackedWeight&>(w).row().integer(); }

void linear(base::Team& team, const KernelTable& table, const RowSource& source, std::span<std::byte> scratch, std::span<const LinearJob> jobs,
            const CpuTuning& tuning) {
  const Tensor x = source.x;
  if (x.rows <= 0 || jobs.empty()) return;
  bool quantize = false;
  for (const LinearJob& j : jobs) {
    ISO_CHECK(j.w && j.w->k == x.cols && j.out.rows == x.rows && j.out.cols == j.w->n && (j.bias.empty() || int64_t(j.bias.size()) == j.w->n));
    ISO_CHECK(!j.up || (can_gate(*j.w, *j.up) && (j.up_bias.empty() || int64_t(j.up_bias.size()) == j.up->n)));
    ISO_CHECK(j.quantized_out ? j.up != nullptr : j.out.data != nullptr);
    ISO_CHECK(integer(*j.w) || (!source.recipe() && !source.quantized));
    quantize |= integer(*j.w);
  }
  quantize = quantize && !source.quantized;
  ISO_CHECK(!quantize || scratch.size() >= linear_scratch_bytes(x.rows, x.cols));
  const Input in{x, quantize ? scratch.data() : const_cast<std::byte*>(source.quantized), table.gemm.panels(x.rows), ceil_div(x.cols, kBlock), tuning.pass_bytes};
  const Tiles<LinearJob> tiles(jobs);
  const SourceRows rows(table, source);
  const int64_t parts = tiles.cost() <= tuning.linear_alone ? 1 : team.size();
  const bool in_passes = quantize && (parts == 1 || by_rows(in, parts));
  if (quantize && !in_passes) quantize_all(team, table, in, source, tuning);
  if (parts == 1) return run_part(table, in, x.rows, tiles, in_passes ? &rows : nullptr, 0, 1);
  if (!by_rows(in, parts)) return team.share([&](int64_t i) { run_part(table, in, x.rows, tiles, nullptr, i, parts); });
  if (in_passes) rows.quantize(even_rows(in, parts), x.rows, in.quantized);
  team.share([&](int64_t i) { run_rows(table, in, tiles, in_passes ? &rows : nullptr, i, parts); });
}

void linear_rows(const KernelTable& table, Tensor x, const Weight& w, Tensor out) {
  ISO_CHECK(!integer(w) && w.k == x.cols && out.rows == x.rows && out.cols == w.n);
  const LinearJob job{.w = &w, .out = out};
  if (x.rows > 0) run_tiles(table, {x, nullptr, table.gemm.panels(x.rows), ceil_div(x.cols, kBlock), 0}, job, 0, packed(job).tiles(), 0, x.rows);
}

void grouped_linear(base::Team& team, const KernelTable& table, std::span<const GroupedJob> jobs, const CpuTuning& tuning) {
  for (const GroupedJob& j : jobs) {
    ISO_CHECK(j.w && j.out.rows > 0 && j.out.cols == j.w->n && (j.bias.empty() || int64_t(j.bias.size()) == j.w->n));
    ISO_CHECK(packed(j).row().integer() ? j.quantized != nullptr : j.x.rows == j.out.rows && j.x.cols == j.w->k);
    ISO_CHECK(!j.up || (can_gate(*j.w, *j.up) && (j.up_bias.empty() || int64_t(j.up_bias.size()) == j.up->n)));
  }
  const Tiles<GroupedJob> tiles(jobs);
  const auto run = [&](int64_t i, int64_t parts) {
    tiles.part(i, parts, [&](const GroupedJob& j, int64_t a, int64_t b) {
      const int64_t rows = j.out.rows;
      const Input in{j.x, j.quantized, table.gemm.panels(rows), ceil_div(j.w->k, kBlock), tuning.pass_bytes};
      for (int64_t m = 0; m < rows; m += pass_rows(in)) run_tiles(table, in, j, a, b, m, std::min(rows, m + pass_rows(in)));
    });
  };
  if (team.size() == 1 || tiles.cost() <= tuning.linear_alone) return run(0, 1);
  team.share([&](int64_t i) { run(i, team.size()); });
}

void embed_row(const KernelTable& table, const Weight& weight, int64_t r, float* out) {
  const auto& w = static_cast<const PackedWeight&>(weight);
  ISO_CHECK(r >= 0 && r < w.n);
  table.gemm.decode_row[size_t(w.pack)](w.tile(r / w.row().rows()), int(r % w.row().rows()), w.k, out);
}

}  // namespace isotope::ops
