// Weights times activations: out[m, n] = sum over k of x[m, k] · w[n, k], plus bias[n].
// One order of addition for every element: blocks of 32 k (floating formats: single k) from first to last, one float32 accumulator. Rows, tiles,
// threads and instruction sets only decide who computes an element, never how; so the bits are the same for all of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/packs.h"

namespace isotope::kernels::cpu {

constexpr int kMaxPanelRows = 16;  ///< on any instruction set

/// Rows of one panel of activations.
struct Panel {
  int64_t first;
  int rows;
};

/// How m rows fall into panels: as many of `full` rows as there are, then one of `small` if that many are left, then the rest.
struct Panels {
  int64_t m;
  int full, small;
  constexpr int64_t count() const { return m / full + (m % full ? 1 : 0) + (m % full > small ? 1 : 0); }
  constexpr Panel operator[](int64_t i) const {
    const int64_t begin = m / full * full;
    const int rest = int(m % full);
    if (i < m / full) return {i * full, full};
    if (rest <= small) return {begin, rest};
    return i == m / full ? Panel{begin, small} : Panel{begin + small, rest - small};
  }
  /// The panel that row r lies in.
  constexpr Panel of(int64_t r) const { return (*this)[r / full + (r >= m / full * full + small && m % full > small ? 1 : 0)]; }
};

/// Activations for the integer kernels: int8 codes with one float32 scale for each 32 k of a row. A panel of h rows is a run of records along k, one
/// for each block:
///   int8 q[h][32] | float d[h] | float d·sum(q)[h] | int32 -sum(q)[h] | int32 -sum(q[0..15])[h] | int32 -sum(q[16..31])[h]
/// q is 0 and d is NaN for a block with a NaN or an infinity, so that the row's results are NaN and no other row notices.
constexpr size_t kRecordBytes = kBlock + 5 * 4;  ///< of one row
constexpr size_t quantized_bytes(int64_t rows, int64_t k) { return size_t(rows) * size_t((k + kBlock - 1) / kBlock) * kRecordBytes; }

/// Row r of a panel of h rows.
struct PanelRow {
  std::byte* panel;
  int h, r;
};

/// Rows that are normed: x [h, k], weight [k] or null.
struct NormedRows {
  const float* x;
  int64_t x_stride;
  const float* weight;
  float eps;
};

struct GemmArgs {
  const std::byte* tiles = nullptr;  ///< first tile
  size_t tile_bytes = 0;             ///< from one tile to the next
  int64_t n = 0;                     ///< outputs; the last tile may be partly used
  int64_t k = 0;
  int64_t m = 0;                     ///< rows
  const std::byte* quantized = nullptr;  ///< integer packs: first of the panels of these m rows; begins on a multiple of panel_rows
  const float* x = nullptr;              ///< floating packs: [m, k]
  int64_t x_stride = 0;
  float* out = nullptr;              ///< [m, n]
  int64_t out_stride = 0;
  const float* bias = nullptr;       ///< [n] or null
  /// Integer packs: null, or a second weight [n, k] in the same pack. Then out = act(x·Wᵀ + bias) * (x·Upᵀ + up_bias), the same bits as three calls.
  const std::byte* up_tiles = nullptr;
  const float* up_bias = nullptr;
  Act act = Act::silu;
};

struct GemmKernels {
  using Gemm = void (*)(const GemmArgs&) noexcept;
  /// Row `row` of a tile as float32, k values: what tensor::dequantize gives.
  using DecodeRow = void (*)(const std::byte* tile, int row, int64_t k, float* out) noexcept;

  Gemm gemm[size_t(Pack::count_)];
  DecodeRow decode_row[size_t(Pack::count_)];
  /// One panel of h rows, or a run of its records: x and `panel` then begin at that block. Rows h, k columns.
  void (*quantize_panel)(const float* x, int64_t x_stride, int h, int64_t k, std::byte* panel) noexcept;
  /// One row of a panel, k columns.
  void (*quantize_row)(const float* x, int64_t k, PanelRow) noexcept;
  /// ElementwiseKernels::rms_norm (or rms_norm_bf16) and quantize_row in one, without the normed row in between. The same bits.
  using NormQuantizeRow = void (*)(const float* x, const float* weight, float eps, int64_t k, PanelRow) noexcept;
  NormQuantizeRow norm_quantize_row, norm_bf16_quantize_row;
  /// The same for all h rows of a panel.
  using NormQuantizePanel = void (*)(const NormedRows&, int h, int64_t k, std::byte* panel) noexcept;
  NormQuantizePanel norm_quantize_panel, norm_bf16_quantize_panel;
  int panel_rows, small_panel_rows;
  constexpr Panels panels(int64_t m) const { return {m, panel_rows, small_panel_rows}; }
};

}  // namespace isotope::kernels::cpu
