#include "weights/load_all.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "base/fault_guard.h"
#include "base/log.h"
#include "base/topology.h"
#include "weights/json.h"

namespace isotope::weights {

namespace {

int64_t bytes_of(const LoadJob& j) {
  int64_t n = 0;
  for (const TensorEntry* t : j.tensors) n += int64_t(t->bytes);
  return n;
}

int worker_count(const levers::Loading& levers, size_t jobs) {
  const base::Topology& m = base::machine();
  const int cpus = std::max(m.logical_cpus, 1), allowed = m.quota ? std::max(1, std::min(cpus, int(*m.quota + 0.999))) : cpus;
  return std::max(1, std::min({levers.num_threads, allowed, int(std::min<size_t>(jobs, 1024))}));
}

class Walk {
 public:
  Walk(const Checkpoint& c, std::vector<LoadJob> jobs, const Progress& progress)
      : checkpoint_(c), jobs_(std::move(jobs)), progress_(progress) {
    std::stable_sort(jobs_.begin(), jobs_.end(), [](const LoadJob& a, const LoadJob& b) { return position(a) < position(b); });
    for (const LoadJob& j : jobs_) total_ += bytes_of(j);
  }

  void run(int threads) {
    if (threads == 1) return worker();
    std::vector<std::jthread> workers;
    try {
      for (int i = 0; i < threads; ++i)
        workers.emplace_back([this] {
          ::pthread_setname_np(::pthread_self(), "ckpt-loader");
          worker();
        });
    } catch (const std::system_error&) {
      // No more threads to be had: those that run do the work, this one if there are none.
    }
    if (workers.empty()) worker();
  }

  size_t jobs() const { return jobs_.size(); }
  int64_t total() const { return total_; }
  std::optional<Error>& error() { return error_; }

 private:
  static std::pair<int, uint64_t> position(const LoadJob& j) {
    return j.tensors.empty() ? std::pair(-1, uint64_t{0}) : std::pair(j.tensors[0]->file, j.tensors[0]->offset);
  }

  void worker() {
    for (size_t i; !failed_ && (i = next_.fetch_add(1)) < jobs_.size();) {
      auto r = guarded(jobs_[i]);
      const std::lock_guard lock(mutex_);
      if (!r) {
        if (!failed_.exchange(true)) error_ = std::move(r).error();
        return;
      }
      done_ += bytes_of(jobs_[i]);
      if (progress_ && !failed_) progress_({"loading", done_, total_});
    }
  }

  Result<void> guarded(LoadJob& j) {
    try {
      return load_one(checkpoint_, j);
    } catch (const std::bad_alloc&) {
      return fail(Code::resource_exhausted, "no memory left while loading",
                  j.tensors.empty() ? "" : "tensor " + quote_name(j.tensors[0]->name),
                  "free memory or choose a smaller model or a smaller quantization");
    }
  }

  const Checkpoint& checkpoint_;
  std::vector<LoadJob> jobs_;
  const Progress& progress_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;  // guards done_, error_ and the progress callback
  int64_t done_ = 0, total_ = 0;
  std::optional<Error> error_;
};

double mib(uint64_t bytes) { return double(bytes) / double(1 << 20); }

tl::unexpected<Error> unreadable(const Checkpoint& c, const TensorEntry& t) {
  ISO_CHECK_OK(c.check_unchanged(t));
  return fail(Code::data_loss, "a part of the file could not be read while it was being loaded",
              c.files()[size_t(t.file)] + ", tensor " + quote_name(t.name), "check the storage device, or download the file again");
}

}  // namespace

Result<void> load_one(const Checkpoint& c, const LoadJob& j) {
  std::vector<Checkpoint::Data> data;
  std::deque<base::FaultGuard> guards;
  for (const TensorEntry* t : j.tensors) {
    ISO_TRY(Checkpoint::Data d, c.read(*t));
    if (d.mapped) guards.emplace_back(std::span(static_cast<const std::byte*>(d.view.data), d.view.bytes));
    data.push_back(std::move(d));
  }
  const Result<void> consumed = j.consume(data);
  // A fault explains whatever the zeros in its place led to.
  for (size_t i = 0, g = 0; i < data.size(); ++i)
    if (data[i].mapped && guards[g++].faulted()) return unreadable(c, *j.tensors[i]);
  ISO_CHECK_OK(consumed);
  for (size_t i = 0; i < data.size(); ++i)
    if (data[i].mapped) ISO_CHECK_OK(c.check_unchanged(*j.tensors[i]));
  return {};
}

std::string describe(const LoadReport& r) {
  std::string s = fmt::format("{:.1f} MiB in {:.2f} s: reader={}, {} thread{}", mib(uint64_t(r.bytes)), r.seconds,
                              r.mapped ? "mmap" : "read", r.threads, r.threads == 1 ? "" : "s");
  const PrefetchReport& p = r.prefetch;
  if (p.threads)
    s += fmt::format("; prefetch {} of {} files, {:.1f} MiB read, {:.1f} MiB warm, {} reader{}", p.files_done, p.files,
                     mib(p.bytes_read), mib(p.bytes_warm), p.threads, p.threads == 1 ? "" : "s");
  if (p.failed) s += fmt::format(", {} failed", p.failed);
  if (r.advised) s += fmt::format("; fadvise on {} files", r.advised);
  return s;
}

Result<LoadReport> load_all(const Checkpoint& c, std::vector<LoadJob> jobs, const levers::Loading& levers,
                            const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  Walk walk(c, std::move(jobs), progress);
  LoadReport report;
  report.mapped = !levers.disable_mmap;
  report.advised = advise(c.files(), levers);
  Prefetcher prefetcher(c.files(), levers);
  report.threads = worker_count(levers, walk.jobs());
  walk.run(report.threads);
  prefetcher.stop();
  prefetcher.wait();
  if (walk.error()) return tl::unexpected(std::move(*walk.error()));
  report.bytes = walk.total();
  report.prefetch = prefetcher.report();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  base::log(base::LogLevel::info, "loaded {}", describe(report));
  return report;
}

}  // namespace isotope::weights
