#include "ops/cpu/plain_linear.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"

namespace isotope::ops {
namespace {

struct PlainWeight final : Weight {
  std::vector<float> data;  ///< [n, k]
};

float dot(const float* a, const float* b, int64_t k) {
  float acc[16] = {};
  int64_t i = 0;
  for (; i + 16 <= k; i += 16) {
    for (int j = 0; j < 16; ++j) acc[j] += a[i + j] * b[i + j];
  }
  for (int j = 0; i < k; ++i, ++j) acc[j] += a[i] * b[i];
  for (int s = 8; s; s >>= 1) {
    for (int j = 0; j < s; ++j) acc[j] += acc[j + s];
  }
  return acc[0];
}

}  // namespace

Result<std::unique_ptr<Weight>> pack_plain(const HostTensor& t, std::span<const int32_t> rows) {
  const auto& format = tensor::format(t.dtype);
  const int64_t k = t.cols(), source_rows = t.rows(), n = rows.empty() ? source_rows : int64_t(rows.size());
  if (!format.weights || k <= 0 || k % format.block != 0) {
    return fail(Code::unsupported, fmt::format("{} weights with rows of {} elements", format.name, k), "tensor", "convert the file to another type");
  }
  auto w = std::make_unique<PlainWeight>();
  w->n = n;
  w->k = k;
  w->dtype = t.dtype;
  w->data.resize(size_t(n * k));
  w->bytes = w->data.size() * sizeof(float);
  const size_t row_bytes = tensor::row_bytes(t.dtype, k);
  for (int64_t r = 0; r < n; ++r) {
    const int64_t from = rows.empty() ? r : rows[size_t(r)];
    ISO_CHECK(from >= 0 && from < source_rows);
    ISO_CHECK_OK(tensor::dequantize(t.dtype, static_cast<const std::byte*>(t.data) + size_t(from) * row_bytes, std::span(w->data).subspan(size_t(r * k), size_t(k))));
  }
  return w;
}

void embed_row_plain(const Weight& table, int32_t row, float* out) {
  std::memcpy(out, static_cast<const PlainWeight&>(table).data.data() + row * table.k, size_t(table.k) * sizeof(float));
}

void linear_plain(Tensor x, const Linear& l, Tensor out, base::Team& team) {
  const auto& w = static_cast<const PlainWeight&>(*l.w);
  team.for_ranges(w.n, 16, [&](int64_t n0, int64_t n1) {
    for (int64_t n = n0; n < n1; ++n) {
      for (int64_t r = 0; r < x.rows; ++r) out.row(r)[n] = dot(x.row(r), w.data.data() + n * w.k, w.k) + (l.bias.empty() ? 0.0f : l.bias[size_t(n)]);
    }
  });
}

}  // namespace isotope::ops
