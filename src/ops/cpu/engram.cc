// N-gram tables on the CPU: rows come from a mapping of the file, so that reading them is waiting for memory or for the disk. Each row and token is done by
// itself.
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/check.h"
#include "base/fault_guard.h"
#include "ops/cpu/share.h"
#include "ops/cpu/sparse.h"

namespace isotope::ops {
namespace {

constexpr uintptr_t kLine = 64, kPage = 4096;
constexpr float kLeastScore = 1e-6f;
/// A row that comes from far away costs as much as this many numbers that are there.
constexpr int64_t kFarRow = 2048;
/// Rows that are on their way while one is read.
constexpr int64_t kAhead = 8;

/// 2^(code - 127); 255 is no number.
float power_of(std::byte code) noexcept { return tensor::f8_e8m0_to_f32(uint8_t(code)); }

/// The sum of products: element i in lane i % 16, then a tree.
float dot(const float* a, const float* b, int64_t n) noexcept {
  float lane[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int64_t l = 0; l < 16; ++l) lane[l] += a[i + l] * b[i + l];
  for (int64_t l = 0; i < n; ++i, ++l) lane[l] += a[i] * b[i];
  for (int half = 8; half; half /= 2)
    for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}

/// Asks for memory that will be read soon.
void fetch(const std::byte* p, size_t bytes) noexcept {
  const auto end = reinterpret_cast<uintptr_t>(p) + bytes;
  for (uintptr_t at = reinterpret_cast<uintptr_t>(p) / kLine * kLine; at < end; at += kLine) __builtin_prefetch(reinterpret_cast<const void*>(at));
}

}  // namespace

void read_table_row(const RowTable& t, int64_t row, float* out) noexcept {
  const std::byte* const from = t.values + size_t(row) * t.row_bytes();
  if (t.dtype != tensor::DType::f8_e4m3) {
    (void)tensor::dequantize(t.dtype, from, {out, size_t(t.dim)});
    return;
  }
  const std::byte* const scales = t.scales ? t.scales + size_t(row) * t.scale_bytes() : nullptr;
  const int block = scales ? t.block : t.dim;
  for (int b = 0; b * block < t.dim; ++b) {
    const float scale = scales ? power_of(scales[b]) : 1.0f;
    for (int i = b * block; i < (b + 1) * block; ++i) out[i] = tensor::f8_e4m3_to_f32(uint8_t(from[i])) * scale;
  }
}

TableGuard::TableGuard(const RowTable& t)
    : damaged_(t.mapped ? t.damaged : nullptr) {
  if (!damaged_) return;
  values_.emplace(std::span(t.values, size_t(t.rows) * t.row_bytes()));
  if (t.scales) scales_.emplace(std::span(t.scales, size_t(t.rows) * t.scale_bytes()));
}

TableGuard::~TableGuard() {
  if (damaged_ && (values_->faulted() || (scales_ && scales_->faulted()))) damaged_->store(true, std::memory_order_release);
}

void CpuSparse::prefetch_rows(const RowsArgs& a) {
  ISO_CHECK(a.table && int64_t(a.rows.size()) == a.each * o_.batch_.T());
  const RowTable& t = *a.table;
  // The pages are asked for all at once; without that each would be waited for by itself.
  const auto ask = [&](const std::byte* p, size_t bytes) {
    const auto at = reinterpret_cast<uintptr_t>(p);
    if (t.mapped) ::madvise(reinterpret_cast<void*>(at / kPage * kPage), at % kPage + bytes, MADV_WILLNEED);
    fetch(p, bytes);
  };
  for_rows(o_.team_, int64_t(a.rows.size()), kFarRow, [&](int64_t n0, int64_t n1) {
    for (int64_t n = n0; n < n1; ++n) {
      ask(t.values + size_t(a.rows[size_t(n)]) * t.row_bytes(), t.row_bytes());
      if (t.scales) ask(t.scales + size_t(a.rows[size_t(n)]) * t.scale_bytes(), t.scale_bytes());
    }
  });
}

Tensor CpuSparse::take_rows(const RowsArgs& a) {
  ISO_CHECK(a.table && a.table->values && int64_t(a.rows.size()) == a.each * o_.batch_.T());
  const RowTable& t = *a.table;
  const Tensor out = o_.empty(o_.batch_.T(), a.each * t.dim);
  for_rows(o_.team_, int64_t(a.rows.size()), kFarRow + t.dim, [&](int64_t n0, int64_t n1) {
    const TableGuard guard(t);
    for (int64_t n = n0; n < n1; ++n) {
      const int64_t row = a.rows[size_t(n)];
      ISO_CHECK(row >= 0 && row < t.rows);
      if (n + kAhead < n1) fetch(t.values + size_t(a.rows[size_t(n + kAhead)]) * t.row_bytes(), t.row_bytes());
      read_table_row(t, row, out.row(n / a.each) + n % a.each * t.dim);
    }
  });
  return out;
}

void CpuSparse::add_memory(Tensor streams, const MemoryArgs& a) {
  const int64_t n = a.streams, d = streams.cols / std::max<int64_t>(1, n);
  ISO_CHECK(n > 0 && n * d == streams.cols && a.kv.rows == streams.rows && a.kv.cols == streams.cols + d);
  ISO_CHECK(int64_t(a.q_weight.size()) == streams.cols && int64_t(a.k_weight.size()) == streams.cols);
  const auto& k = o_.k_.elementwise;
  const auto norm = o_.bf16_norms_ ? k.rms_norm_bf16 : k.rms_norm;
  const Tensor query = o_.empty(streams.rows, d), key = o_.empty(streams.rows, d);
  const float width = std::sqrt(float(d));
  for_rows(o_.team_, streams.rows, streams.cols * 6, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      const float *const kv = a.kv.row(r), *const value = kv + streams.cols;
      for (int64_t s = 0; s < n; ++s) {
        float* const stream = streams.row(r) + s * d;
        norm(query.row(r), stream, a.q_weight.data() + s * d, d, a.eps);
        norm(key.row(r), kv + s * d, a.k_weight.data() + s * d, d, a.eps);
        const float score = dot(query.row(r), key.row(r), d) / width;
        float gate = std::copysign(std::sqrt(std::max(std::abs(score), kLeastScore)), score);
        k.sigmoid(&gate, 1);
        for (int64_t i = 0; i < d; ++i) stream[i] = gate * value[i] + stream[i];
      }
    }
  });
}

}  // namespace isotope::ops
