#include "models/engram_tables.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace isotope::models {

using tensor::DType;

namespace {

int64_t bytes_of(const ops::RowTable& t) { return t.rows * int64_t(t.row_bytes() + t.scale_bytes()); }

/// Neighbours of a row are no likelier to be needed than any other row.
void expect_anywhere(const weights::Checkpoint::Data& d) {
  if (!d.mapped || !d.view.bytes) return;
  constexpr uintptr_t kPage = 4096;
  const auto begin = (reinterpret_cast<uintptr_t>(d.view.data) + kPage - 1) / kPage * kPage, end = (reinterpret_cast<uintptr_t>(d.view.data) + d.view.bytes) / kPage * kPage;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_RANDOM);
}

}  // namespace

Result<std::shared_ptr<EngramTables>> EngramTables::make(const EngramConfig& c) {
  ISO_CHECK(c.map);
  ISO_TRY(EngramHash hash, EngramHash::make(c));
  std::shared_ptr<EngramTables> t(new EngramTables(c, std::move(hash)));
  if (!c.in_place) t->reader_ = std::make_unique<EngramReader>();
  return t;
}

Result<void> EngramTables::set(int table, weights::Checkpoint::Data values, weights::Checkpoint::Data scales, const std::string& name) {
  const int64_t rows = config_.rows[size_t(table)], dim = config_.dim;
  const tensor::HostTensor &v = values.view, &s = scales.view;
  if (v.dtype != DType::f8_e4m3 && v.dtype != DType::bf16 && v.dtype != DType::f16 && v.dtype != DType::f32)
    return fail(Code::unsupported, fmt::format("tensor {} is of type {}", name, tensor::format(v.dtype).name), {}, "F8_E4M3, BF16, F16 and F32 are supported");
  ISO_CHECK(v.rank == 2 && v.shape[0] == rows && v.shape[1] == dim);
  ops::RowTable t{.values = static_cast<const std::byte*>(v.data), .dtype = v.dtype, .rows = rows, .dim = int(dim), .mapped = values.mapped, .damaged = &damaged_};
  if (s.data) {
    if (v.dtype != DType::f8_e4m3 || s.dtype != DType::f8_e8m0 || s.rank != 2 || s.shape[0] != rows || s.shape[1] < 1 || dim % s.shape[1])
      return fail(Code::data_loss, fmt::format("the scales of {} are {} [{}, {}] for {} rows of {}", name, tensor::format(s.dtype).name, s.shape[0], s.shape[1], rows, dim), {},
                  "use an intact checkpoint: E4M3 rows have E8M0 scales, as many for each");
    t.scales = static_cast<const std::byte*>(s.data), t.block = int(dim / s.shape[1]);
  }
  expect_anywhere(values), expect_anywhere(scales);
  held_.push_back(std::move(values.keep)), held_.push_back(std::move(scales.keep));
  tables_[size_t(table)] = t;
  source_ = name;
  return {};
}

Result<void> EngramTables::intact() const {
  if (!damaged_.load(std::memory_order_acquire)) return {};
  return fail(Code::data_loss, "rows of an n-gram table could not be read: the file was cut or written to", source_,
              "restart with intact files; n-gram tables are read while the model runs, so replace files by renaming new ones");
}

EngramStats EngramTables::stats() const {
  return {.path = reader_ ? "staged" : "in_place", .rows = rows_, .bytes = bytes_, .seconds = double(nanoseconds_) * 1e-9, .table_bytes = bytes(), .map_kept = config_.map_kept};
}

int64_t EngramTables::bytes() const {
  int64_t n = 0;
  for (const ops::RowTable& t : tables_) n += bytes_of(t);
  return n;
}

std::unique_ptr<EngramTables::Memory> EngramTables::take_memory() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<Memory>();
  auto m = std::move(free_.back());
  free_.pop_back();
  return m;
}

void EngramTables::give_back(std::unique_ptr<Memory> m) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(m));
}

EngramStep::EngramStep(EngramTables& t, ops::SparseOps& sparse, const ops::Batch& b) : t_(t), sparse_(sparse), tokens_(b.T()), m_(t.take_memory()) {
  ISO_CHECK(b.lookback == t.hash_.lookback() && int64_t(b.before.size()) == b.S() * b.lookback);
  m_->rows.resize(t.tables_.size() * size_t(tokens_) * size_t(t.hash_.columns()));
  find_rows(b);
  m_->jobs.assign(t.tables_.size(), {});
  for (int i = 0; i < int(t.tables_.size()); ++i)
    if (!t.reader_) sparse_.prefetch_rows(args(i));
    else if (i < 2) read_ahead(i);
}

EngramStep::~EngramStep() {
  for (EngramReader::Job& job : m_->jobs)
    if (job.table) t_.reader_->wait(job);
  t_.give_back(std::move(m_));
}

void EngramStep::find_rows(const ops::Batch& b) {
  const EngramHash& h = t_.hash_;
  const int64_t back = h.lookback(), columns = h.columns();
  for (int64_t s = 0; s < b.S(); ++s) {
    const int64_t first = b.query_start[size_t(s)], n = b.query_start[size_t(s) + 1] - first;
    m_->ids.resize(size_t(back + n));  // the newest first
    for (int64_t i = 0; i < n; ++i) m_->ids[size_t(n - 1 - i)] = h.compressed(b.tokens[size_t(first + i)]);
    for (int64_t i = 0; i < back; ++i) {
      const int32_t token = b.before[size_t(s * back + back - 1 - i)];
      m_->ids[size_t(n + i)] = token < 0 ? -1 : h.compressed(token);
    }
    for (size_t table = 0; table < t_.tables_.size(); ++table)
      for (int64_t i = 0; i < n; ++i)
        h.rows(int(table), std::span(m_->ids).subspan(size_t(n - 1 - i), size_t(back + 1)),
               std::span(m_->rows).subspan((table * size_t(tokens_) + size_t(first + i)) * size_t(columns), size_t(columns)));
  }
}

ops::RowsArgs EngramStep::args(int i) const {
  const size_t n = size_t(tokens_) * size_t(t_.hash_.columns());
  return {.table = &t_.tables_[size_t(i)], .rows = std::span(m_->rows).subspan(size_t(i) * n, n), .each = t_.hash_.columns()};
}

void EngramStep::read_ahead(int i) {
  const ops::RowsArgs a = args(i);
  std::vector<float>& to = m_->staged[i % 2];
  to.resize(a.rows.size() * size_t(a.table->dim));
  m_->jobs[size_t(i)] = {.table = a.table, .rows = a.rows, .out = to.data()};
  t_.reader_->start(m_->jobs[size_t(i)]);
}

ops::Tensor EngramStep::take(int i) {
  const ops::RowsArgs a = args(i);
  const int64_t n = int64_t(a.rows.size()), width = a.each * a.table->dim;
  t_.rows_ += n, t_.bytes_ += n * int64_t(a.table->row_bytes() + a.table->scale_bytes());
  if (!t_.reader_) {
    const auto start = std::chrono::steady_clock::now();
    const ops::Tensor out = sparse_.take_rows(a);
    t_.nanoseconds_ += std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
    return out;
  }
  if (i > 0 && size_t(i) + 1 < t_.tables_.size()) read_ahead(i + 1);  // into the memory of the last table but one, which nobody reads any more
  t_.reader_->wait(m_->jobs[size_t(i)]);
  t_.nanoseconds_ += int64_t(m_->jobs[size_t(i)].seconds * 1e9);
  return {m_->staged[i % 2].data(), tokens_, width, width};
}

}  // namespace isotope::models
