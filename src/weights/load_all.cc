#include "weights/load_all.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "base/fault_guard.h"
#include "base/log.h"
#include "base/topology.h"
#include "weights/json.h"
#include "weights/online.h"
#include "weights/stream_quant.h"

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

/// The jobs of a load that are quantized on the way, if there are any.
class Online {
 public:
  Online(const Checkpoint& c, const levers::Loading& levers) : c_(dynamic_cast<const OnlineCheckpoint*>(&c)) {
    if (c_ && levers.online_quant_streaming) stream_ = std::make_unique<StreamQuant>(*c_, levers.online_quant_host_staging, levers.online_quant_threads);
  }
  bool has(const LoadJob& j) const { return c_ && std::any_of(j.tensors.begin(), j.tensors.end(), [&](const TensorEntry* t) { return c_->converts(*t); }); }
  /// Those that do not stream form a pass of their own behind the others.
  bool last(const LoadJob& j) const { return !stream_ && has(j); }
  StreamQuant* stream_for(const LoadJob& j) const { return stream_ && has(j) ? stream_.get() : nullptr; }
  Result<void> drain() { return stream_ ? stream_->drain() : Result<void>(); }
  void report(LoadReport& r) const {
    if (!c_) return;
    r.quantized = c_->quantized();
    if (stream_) r.streamed = stream_->done(), r.stream_threads = stream_->workers(), r.most_in_flight = stream_->most_in_flight();
  }

 private:
  const OnlineCheckpoint* c_;
  std::unique_ptr<StreamQuant> stream_;
};

class Walk {
 public:
  Walk(const Checkpoint& c, std::vector<LoadJob> jobs, const Online& online, const Progress& progress)
      : checkpoint_(c), jobs_(std::move(jobs)), online_(online), progress_(progress) {
    const auto place = [&](const LoadJob& j) { return std::pair(online.last(j), position(j)); };
    std::stable_sort(jobs_.begin(), jobs_.end(), [&](const LoadJob& a, const LoadJob& b) { return place(a) < place(b); });
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
      if (StreamQuant* const stream = online_.stream_for(j)) return stream->take(j);
      return load_one(checkpoint_, j);
    } catch (const std::bad_alloc&) {
      return fail(Code::resource_exhausted, "no memory left while loading",
                  j.tensors.empty() ? "" : "tensor " + quote_name(j.tensors[0]->name),
                  "free memory or choose a smaller model or a smaller quantization");
    }
  }

  const Checkpoint& checkpoint_;
  std::vector<LoadJob> jobs_;
  const Online& online_;
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
              place_of(c, t), "check the storage device, or download the file again");
}

/// What is wrong with a tensor's contents says which tensor it is, and of which file.
Error placed(const Checkpoint& c, const LoadJob& j, Error e) {
  const bool contents = e.code == Code::unsupported || e.code == Code::data_loss;
  if (!contents || j.tensors.empty() || (e.what + e.source).find(j.tensors[0]->name) != std::string::npos) return e;
  e.source = place_of(c, *j.tensors[0]) + (e.source.empty() ? "" : ", " + e.source);
  return e;
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
  if (!consumed) return tl::unexpected(placed(c, j, consumed.error()));
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
  if (r.quantized && r.streamed)
    s += fmt::format("; {} of {} matrices quantized during the load, {} workers, at most {} in flight", r.streamed, r.quantized, r.stream_threads, r.most_in_flight);
  else if (r.quantized) s += fmt::format("; {} matrices quantized after the load of the rest", r.quantized);
  if (r.advised) s += fmt::format("; fadvise on {} files", r.advised);
  return s;
}

Result<LoadReport> load_all(const Checkpoint& c, std::vector<LoadJob> jobs, const levers::Loading& levers,
                            const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  Online online(c, levers);
  Walk walk(c, std::move(jobs), online, progress);
  LoadReport report;
  report.mapped = !levers.disable_mmap;
  report.advised = advise(c.files(), levers);
  Prefetcher prefetcher(c.files(), levers);
  const bool one_by_one = dynamic_cast<const OnlineCheckpoint*>(&c) && levers.online_quant_streaming && !levers.online_quant_host_staging;
  report.threads = one_by_one ? 1 : worker_count(levers, walk.jobs());
  walk.run(report.threads);
  auto drained = online.drain();
  prefetcher.stop();
  prefetcher.wait();
  if (walk.error()) return tl::unexpected(std::move(*walk.error()));
  ISO_CHECK_OK(drained);
  online.report(report);
  report.bytes = walk.total();
  report.prefetch = prefetcher.report();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  base::log(base::LogLevel::info, "loaded {}", describe(report));
  return report;
}

}  // namespace isotope::weights
