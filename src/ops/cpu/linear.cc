#include "ops/cpu/linear.h"

#include <algorithm>

#include "base/check.h"

namespace isotope::ops {

using kernels::cpu::GemmArgs;
using kernels::cpu::kBlock;
using kernels::cpu::KernelTable;
using kernels::cpu::kRecordBytes;

namespace {

// Rough costs, for a fair cut only.
constexpr int64_t kQuantizeBlockCycles = 25, kBytesPerCycle = 8, kBlockRowCycles = 13, kFloatRowCycles = 4;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
const PackedWeight& packed(const LinearJob& j) { return static_cast<const PackedWeight&>(*j.w); }

int64_t tile_cost(const LinearJob& j, int64_t rows) {
  const PackedWeight& w = packed(j);
  const int64_t compute = w.row().integer() ? ceil_div(w.k, kBlock) * kBlockRowCycles : w.k * kFloatRowCycles;
  return (std::max(int64_t(w.tile_bytes) / kBytesPerCycle, rows * compute) + 1) * (j.up ? 2 : 1);
}

/// All tiles of all jobs, one after another, cut by cost.
template <class Job>
class Tiles {
 public:
  explicit Tiles(std::span<const Job> jobs) : jobs_(jobs) {
    for (const Job& j : jobs) count_ += packed(j).tiles(), cost_ += packed(j).tiles() * tile_cost(j, j.out.rows);
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
      const int64_t each = tile_cost(j, j.out.rows), n = packed(j).tiles();
      // A tile belongs to the part in which its cost begins.
      const int64_t a = std::clamp(ceil_div(std::max<int64_t>(from - before, 0), each), int64_t{0}, n);
      const int64_t b = std::clamp(ceil_div(std::max<int64_t>(to - before, 0), each), int64_t{0}, n);
      if (a < b) f(j, a, b);
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

void run_tiles(const KernelTable& t, const Input& in, const LinearJob& j, int64_t tile, int64_t end, int64_t row, int64_t row_end) {
  const PackedWeight& w = packed(j);
  const int64_t tile_rows = w.row().rows(), n0 = tile * tile_rows;
  t.gemm.gemm[size_t(w.pack)]({.tiles = w.tile(tile),
                               .tile_bytes = w.tile_bytes,
                               .n = std::min(w.n, end * tile_rows) - n0,
                               .k = w.k,
                               .m = row_end - row,
                               .quantized = w.row().integer() ? in.panel(row) : nullptr,
                               .x = w.row().integer() ? nullptr : in.x.row(row),
                               .x_stride = in.x.stride,
                               .out = j.out.row(row) + n0,
                               .out_stride = j.out.stride,
                               .bias = j.bias.empty() ? nullptr : j.bias.data() + n0,
                               .up_tiles = j.up ? static_cast<const PackedWeight&>(*j.up).tile(tile) : nullptr,
                               .up_bias = j.up_bias.empty() ? nullptr : j.up_bias.data() + n0,
                               .act = j.act});
}

// Rows of one pass, whole panels.
int64_t pass_rows(const Input& in) {
  const int64_t rows = in.pass_bytes / std::max<int64_t>(1, in.blocks * int64_t(kRecordBytes));
  return std::max<int64_t>(in.panels.full, rows / in.panels.full * in.panels.full);
}

// What member `i` of `parts` computes. Many tiles: a share of them for all rows. Few tiles for the team: a share of (rows, tiles).
void run_part(const KernelTable& t, const Input& in, const Tiles<LinearJob>& tiles, int64_t i, int64_t parts) {
  const int64_t rows = in.x.rows, panels = ceil_div(rows, in.panels.full);
  const bool by_rows = panels >= 4 * parts;
  const int64_t row_parts = by_rows ? parts : tiles.count() >= 4 * parts ? 1 : std::min(panels, ceil_div(4 * parts, tiles.count()));
  const int64_t units = by_rows || row_parts == 1 ? parts : row_parts * std::min(parts, tiles.count()), per_row_part = units / row_parts;
  for (int64_t u = units * i / parts; u < units * (i + 1) / parts; ++u) {
    const int64_t p = u / per_row_part;
    const int64_t begin = panels * p / row_parts * in.panels.full, end = std::min(rows, panels * (p + 1) / row_parts * in.panels.full);
    for (int64_t m = begin; m < end; m += pass_rows(in))
      tiles.part(u % per_row_part, per_row_part,
                 [&](const LinearJob& j, int64_t a, int64_t b) { run_tiles(t, in, j, a, b, m, std::min(end, m + pass_rows(in))); });
  }
}

}  // namespace

bool can_gate(const Weight& gate, const Weight& up) {
  const auto &a = static_cast<const PackedWeight&>(gate), &b = static_cast<const PackedWeight&>(up);
  return a.pack == b.pack && a.row().integer() && a.n == b.n && a.k == b.k;
}

void linear(base::Team& team, const KernelTable& table, Tensor x, std::span<std::byte> scratch, std::span<const LinearJob> jobs, const CpuTuning& tuning) {
  if (x.rows <= 0 || jobs.empty()) return;
  bool quantize = false;
  for (const LinearJob& j : jobs) {
    ISO_CHECK(j.w && j.w->k == x.cols && j.out.rows == x.rows && j.out.cols == j.w->n && (j.bias.empty() || int64_t(j.bias.size()) == j.w->n));
    ISO_CHECK(!j.up || (can_gate(*j.w, *j.up) && (j.up_bias.empty() || int64_t(j.up_bias.size()) == j.up->n)));
    quantize |= packed(j).row().integer();
  }
  ISO_CHECK(!quantize || scratch.size() >= linear_scratch_bytes(x.rows, x.cols));
  const Input in{x, scratch.data(), table.gemm.panels(x.rows), ceil_div(x.cols, kBlock), tuning.pass_bytes};
  const Tiles<LinearJob> tiles(jobs);
  const int64_t records = quantize ? in.panels.count() * in.blocks : 0;
  const bool quantize_alone = !quantize || x.rows * in.blocks * kQuantizeBlockCycles <= tuning.linear_alone;
  if (team.size() == 1 || tiles.cost() <= tuning.linear_alone) {
    quantize_records(table, in, 0, records);
    return run_part(table, in, tiles, 0, 1);
  }
  const int64_t parts = team.size();
  if (quantize_alone) quantize_records(table, in, 0, records);
  else team.share([&](int64_t i) { quantize_records(table, in, records * i / parts, records * (i + 1) / parts); });
  team.share([&](int64_t i) { run_part(table, in, tiles, i, parts); });
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
