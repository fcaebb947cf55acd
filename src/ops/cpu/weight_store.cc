#include "ops/cpu/weight_store.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
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

Result<WeightStore::Piece> WeightStore::take(size_t bytes) {
  if (bytes > SIZE_MAX / 4) return fail(Code::resource_exhausted, fmt::format("a weight of {} bytes", bytes), "packing weights", "check the file");
  bytes = round_up(std::max<size_t>(bytes, 1), 64);
  const std::lock_guard lock(mutex_);
  if (slab_)
    if (std::byte* p = slab_->cut(bytes)) return Piece{slab_, p};
  // Pages that are never written cost nothing, so a slab may be larger than what is left to pack.
  const size_t size = std::max(kSlab, round_up(bytes, kHugePage)) + kHugePage;
  void* map = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED)
    return fail(Code::resource_exhausted, fmt::format("cannot map {} bytes: {}", size, std::strerror(errno)), "packing weights",
                "free memory or raise the address space limit (ulimit -v)");
  madvise(map, size, MADV_HUGEPAGE);
  auto slab = std::make_shared<Slab>(map, size);
  std::byte* p = slab->cut(bytes);
  // A weight larger than a slab has one of its own; the open slab stays in use.
  if (bytes < kSlab / 2 || !slab_) slab_ = slab;
  return Piece{std::move(slab), p};
}

}  // namespace isotope::ops
