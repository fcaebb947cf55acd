// Warms the page cache ahead of the loader: reads whole files front to back on background threads and discards the data.
// Failures only cost speed, so they are counted and never reported as errors.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "levers/groups.h"

namespace isotope::weights {

struct PrefetchReport {
  int files = 0, files_done = 0, failed = 0;
  uint64_t bytes_read = 0;  ///< from storage
  uint64_t bytes_warm = 0;  ///< found in the page cache and left alone
  int threads = 0;
  double seconds = 0;  ///< until the last reader ended (so far, while some run)
};

/// Which rank of how many on this machine; each takes every n-th file, since the page cache is shared.
struct NodeRank {
  int rank = 0, ranks = 1;
};

class Prefetcher {
 public:
  /// Starts max(1, ATOM_LOADER_PREFETCH_THREADS) readers ("ckpt-prefetch") over `files` in name order, one file a reader at a
  /// time, in reads of ATOM_LOADER_PREFETCH_BLOCK_MB; none when ATOM_LOADER_PREFETCH is off.
  Prefetcher(std::vector<std::string> files, const levers::Loading&, NodeRank = {});
  /// Stops: each reader ends after the block it is in.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  void stop() noexcept { stop_ = true; }
  void wait();  ///< until everything has been read, or stop() took effect
  PrefetchReport report() const;

 private:
  void reader() noexcept;
  void warm(const std::string& path, std::byte* buffer);

  std::vector<std::string> files_;
  size_t block_ = 0;
  std::vector<std::jthread> threads_;
  std::atomic<bool> stop_{false};
  std::atomic<size_t> next_{0};
  std::atomic<int> done_{0}, failed_{0};
  std::atomic<uint64_t> read_{0}, warm_{0};
  std::atomic<int64_t> last_end_ns_{0};
  int64_t start_ns_ = 0;
};

/// posix_fadvise SEQUENTIAL, then WILLNEED over each file; only with ATOM_LOADER_FADVISE on, prefetching off and mmap on. Returns
/// how many files were advised.
int advise(const std::vector<std::string>& files, const levers::Loading&);

}  // namespace isotope::weights
