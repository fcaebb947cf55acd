#include "weights/prefetcher.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/uio.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "base/mapped_file.h"

namespace isotope::weights {

namespace {

constexpr size_t kPage = 4096;

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// True if a byte can be read without touching the storage. Where the kernel or file system cannot tell, it counts as cold.
bool in_page_cache(int fd, uint64_t offset) {
  char b;
  iovec v{&b, 1};
  return ::preadv2(fd, &v, 1, off_t(offset), RWF_NOWAIT) == 1;
}

// Three pages stand for a block: copying gigabytes that are in memory already would only take cycles from the loader.
bool warm_block(int fd, uint64_t offset, uint64_t n) {
  return in_page_cache(fd, offset) && in_page_cache(fd, offset + n / 2) && in_page_cache(fd, offset + n - 1);
}

struct Free {
  void operator()(std::byte* p) const noexcept { std::free(p); }
};

}  // namespace

Prefetcher::Prefetcher(std::vector<std::string> files, const levers::Loading& levers, NodeRank node) {
  start_ns_ = now_ns();
  if (!levers.prefetch) return;
  std::sort(files.begin(), files.end());
  for (size_t i = size_t(node.rank); i < files.size(); i += size_t(std::max(1, node.ranks)))
    files_.push_back(std::move(files[i]));
  block_ = size_t(std::clamp(levers.prefetch_block_mb, 1, 1024)) << 20;
  const size_t n = std::min<size_t>(size_t(std::max(1, levers.prefetch_threads)), files_.size());
  try {
    for (size_t i = 0; i < n; ++i) threads_.emplace_back([this] { reader(); });
  } catch (const std::system_error&) {
    // Fewer readers, or none: only slower.
  }
}

Prefetcher::~Prefetcher() {
  stop();
  wait();
}

void Prefetcher::wait() {
  for (std::jthread& t : threads_)
    if (t.joinable()) t.join();
}

void Prefetcher::reader() noexcept {
  ::pthread_setname_np(::pthread_self(), "ckpt-prefetch");
  const std::unique_ptr<std::byte, Free> buffer(static_cast<std::byte*>(std::aligned_alloc(kPage, block_)));
  for (size_t i; buffer && !stop_ && (i = next_.fetch_add(1)) < files_.size();) warm(files_[i], buffer.get());
  last_end_ns_ = now_ns();
}

void Prefetcher::warm(const std::string& path, std::byte* buffer) {
  const auto file = base::File::open(path);
  if (!file) {
    ++failed_;
    return;
  }
  for (uint64_t at = 0; at < file->size() && !stop_; at += block_) {
    const uint64_t n = std::min<uint64_t>(block_, file->size() - at);
    if (warm_block(file->fd(), at, n)) {
      warm_ += n;
      continue;
    }
    if (!file->read(at, {buffer, size_t(n)})) {
      ++failed_;
      return;
    }
    read_ += n;
  }
  if (!stop_) ++done_;
}

PrefetchReport Prefetcher::report() const {
  const int64_t end = done_ + failed_ == int(files_.size()) && last_end_ns_ ? last_end_ns_.load() : now_ns();
  return {.files = int(files_.size()),
          .files_done = done_,
          .failed = failed_,
          .bytes_read = read_,
          .bytes_warm = warm_,
          .threads = int(threads_.size()),
          .seconds = threads_.empty() ? 0 : double(end - start_ns_) * 1e-9};
}

int advise(const std::vector<std::string>& files, const levers::Loading& levers) {
  if (!levers.fadvise || levers.prefetch || levers.disable_mmap) return 0;
  int advised = 0;
  for (const std::string& path : files) {
    const auto file = base::File::open(path);
    if (!file) continue;
    // Two calls: the values are enumerators, not bits.
    const int a = ::posix_fadvise(file->fd(), 0, 0, POSIX_FADV_SEQUENTIAL),
              b = ::posix_fadvise(file->fd(), 0, 0, POSIX_FADV_WILLNEED);
    advised += a == 0 && b == 0;
  }
  return advised;
}

}  // namespace isotope::weights
