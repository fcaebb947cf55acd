// What DeepSeek V4.1 calls beyond sparse.h: rows of n-gram tables that stay where the file has them, and what a layer does with them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/fault_guard.h"
#include "tensor/tensor.h"

namespace isotope::ops {

/// A table of which a step reads a few rows, in the file's own format and place.
struct RowTable {
  const std::byte* values = nullptr;  ///< [rows, dim]
  const std::byte* scales = nullptr;  ///< [rows, dim / block] powers of two as E8M0; null = none
  tensor::DType dtype = tensor::DType::f8_e4m3;  ///< that, or BF16, F16, F32 without scales
  int64_t rows = 0;
  int dim = 0, block = 0;             ///< numbers of a row; numbers that share a scale
  bool mapped = false;                ///< pages come from a file when they are touched
  std::atomic<bool>* damaged = nullptr;  ///< set when a row could not be read: the file was cut. Zeros stand in its place
  size_t row_bytes() const { return tensor::row_bytes(dtype, dim); }
  size_t scale_bytes() const { return scales ? size_t(dim / block) : 0; }
};

/// Rows of a table for the tokens of a step.
struct RowsArgs {
  const RowTable* table = nullptr;
  std::span<const int64_t> rows;      ///< [T, each]. REQUIRES: each within the table
  int64_t each = 0;                   ///< rows of a token
};

/// A memory's keys and value for each token. The score of residual stream s is the product of the normed stream and the normed key s over sqrt(D); its gate
/// is the sigmoid of the score's root: the square root of its magnitude, 1e-6 at least, with its sign. Each stream grows by its gate times the value.
struct MemoryArgs {
  tensor::Tensor kv;                  ///< [T, (N + 1) D]: the key of each stream, then the value
  std::span<const float> q_weight, k_weight;  ///< [N, D] of the norms
  int streams = 0;
  float eps = 0;
};

/// One row as float32; rounding-free but for the format's own.
void read_table_row(const RowTable&, int64_t row, float* out) noexcept;
/// While it lives, this thread may read rows of a table whose file another process cuts; see RowTable::damaged.
class TableGuard {
 public:
  explicit TableGuard(const RowTable&);
  ~TableGuard();
  TableGuard(const TableGuard&) = delete;
  TableGuard& operator=(const TableGuard&) = delete;

 private:
  std::atomic<bool>* damaged_;
  std::optional<base::FaultGuard> values_, scales_;
};

struct Rope;

/// Where entries of compressed keys go: the w-th row belongs to the batch's w-th window whose last token is in it.
struct EntryArgs {
  tensor::Tensor x;                   ///< [W, dim]; rotated by the window's first position, in place
  const Rope* rope = nullptr;
  int layer = 0;                      ///< KvForm::rows
};

}  // namespace isotope::ops
