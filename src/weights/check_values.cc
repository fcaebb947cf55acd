#include "weights/check_values.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "tensor/format.h"

namespace isotope::weights {

namespace {

using tensor::DType;
using tensor::HostTensor;

constexpr int64_t kPiece = 1 << 16;  ///< values decoded at a time; every format's blocks divide it

bool whole_numbers(DType t) {
  return t == DType::i8 || t == DType::i16 || t == DType::i32 || t == DType::i64 || t == DType::u8 || t == DType::boolean;
}

/// Exponents of GPT-OSS' experts call themselves bytes.
bool exponents(const TensorEntry& e, const Checkpoint& c) {
  return e.dtype == DType::u8 && e.name.ends_with("_scales") && c.find(e.name.substr(0, e.name.size() - 7) + "_blocks");
}

std::vector<int64_t> index_of(const TensorEntry& t, int64_t at) {
  std::vector<int64_t> out(size_t(std::max(t.rank, 0)));
  for (size_t d = out.size(); d-- > 0; at /= std::max<int64_t>(t.shape[d], 1)) out[d] = at % std::max<int64_t>(t.shape[d], 1);
  return out;
}

Result<BadValues> look(const TensorEntry& e, HostTensor t) {
  if (t.dtype == DType::u8) t.dtype = DType::f8_e8m0;
  BadValues bad{.tensor = &e, .first = {}};
  const int64_t n = t.elements();
  std::vector<float> x(size_t(std::min(n, kPiece)));
  for (int64_t from = 0; from < n; from += kPiece) {
    const std::span<float> piece = std::span(x).first(size_t(std::min(kPiece, n - from)));
    ISO_CHECK_OK(tensor::dequantize(t.dtype, static_cast<const std::byte*>(t.data) + tensor::row_bytes(t.dtype, from), piece));
    for (size_t i = 0; i < piece.size(); ++i) {
      if (std::isfinite(piece[i])) continue;
      if (bad.nans + bad.infinities == 0) bad.first = index_of(e, from + int64_t(i));
      ++(std::isnan(piece[i]) ? bad.nans : bad.infinities);
    }
  }
  return bad;
}

}  // namespace

Result<ValueReport> check_values(const Checkpoint& c, const levers::Loading& levers, const Progress& progress) {
  ValueReport report;
  std::mutex mutex;  // guards report.bad
  std::vector<LoadJob> jobs;
  for (const TensorEntry& e : c.tensors()) {
    if (whole_numbers(e.dtype) && !exponents(e, c)) continue;
    int64_t n = 1;
    for (int i = 0; i < e.rank; ++i) n *= e.shape[size_t(i)];
    report.tensors += 1, report.values += n;
    jobs.push_back({{&e}, [&report, &mutex, &e](std::span<Checkpoint::Data> d) -> Result<void> {
                      ISO_TRY(BadValues bad, look(e, d[0].view));
                      if (bad.nans + bad.infinities == 0) return {};
                      const std::lock_guard lock(mutex);
                      report.bad.push_back(std::move(bad));
                      return {};
                    }});
  }
  ISO_TRY([[maybe_unused]] const LoadReport loaded, load_all(c, std::move(jobs), levers, progress));
  std::sort(report.bad.begin(), report.bad.end(), [](const BadValues& a, const BadValues& b) { return a.tensor < b.tensor; });
  return report;
}

}  // namespace isotope::weights
