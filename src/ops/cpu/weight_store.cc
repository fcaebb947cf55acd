#include "ops/cpu/weight_store.h"

#include <fmt/format.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace isotope::ops {

namespace {
constexpr size_t kHugePage = size_t{2} << 20, kSlab = size_t{64} << 20;
constexpr size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }
}  // namespace

class WeightStore::Slab {
 public:
  Slab(void* map, size_t size) : map_(map), size_(size), used_(round_up(size_t(map), kHugePage) - size_t(map)) {}
  ~Slab() { munmap(map_, size_); }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  /// Null when it does not fit.
  std::byte* cut(size_t bytes) {
    if (bytes > size_ - used_) return nullptr;
    std::byte* p = static_cast<std::byte*>(map_) + used_;
    used_ += bytes;
    return p;
  }

 private:
  void* map_;
  size_t size_, used_;
};

Result<std::shared_ptr<WeightStore::Slab>> WeightStore::make_slab(size_t size) const {
  const auto unmapped = [&] {
    return fail(Code::resource_exhausted, fmt::format("cannot map {} bytes: {}", size, std::strerror(errno)), "packing weights",
                "free memory or raise the address space limit (ulimit -v)");
  };
  if (folder_.empty()) {
    void* map = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return unmapped();
    madvise(map, size, MADV_HUGEPAGE);
    return std::make_shared<Slab>(map, size);
  }
  std::string name = folder_ + "/isotope-experts-XXXXXX";
  const int fd = mkostemp(name.data(), O_CLOEXEC);
  if (fd >= 0) unlink(name.c_str());  // it goes with the process
  // Room is taken at once: a page that finds none when it is written would end the process.
  const int error = fd < 0 ? errno : posix_fallocate(fd, 0, off_t(size));
  void* map = error ? MAP_FAILED : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int map_error = errno;
  if (fd >= 0) close(fd);
  if (error) return fail(Code::resource_exhausted, fmt::format("no file of {} bytes there: {}", size, std::strerror(error)), folder_, "free space, or name a folder on another disk");
  errno = map_error;
  if (map == MAP_FAILED) return unmapped();
  return std::make_shared<Slab>(map, size);
}

Result<WeightStore::Piece> WeightStore::take(size_t bytes) {
  if (bytes > SIZE_MAX / 4) return fail(Code::resource_exhausted, fmt::format("a weight of {} bytes", bytes), "packing weights", "check the file");
  bytes = round_up(std::max<size_t>(bytes, 1), 64);
  const std::lock_guard lock(mutex_);
  if (slab_)
    if (std::byte* p = slab_->cut(bytes)) return Piece{slab_, p};
  // Pages that are never written cost nothing, so a slab may be larger than what is left to pack.
  const size_t size = std::max(kSlab, round_up(bytes, kHugePage)) + kHugePage;
  ISO_TRY(auto slab, make_slab(size));
  std::byte* p = slab->cut(bytes);
  // A weight larger than a slab has one of its own; the open slab stays in use.
  if (bytes < kSlab / 2 || !slab_) slab_ = slab;
  return Piece{std::move(slab), p};
}

}  // namespace isotope::ops
