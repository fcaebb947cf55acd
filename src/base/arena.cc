#include "base/arena.h"

#include <algorithm>
#include <new>

namespace isotope::base {
namespace {
constexpr size_t kFirstBlock = size_t{1} << 20;
constexpr size_t round_up(size_t n) { return (n + Arena::kAlign - 1) / Arena::kAlign * Arena::kAlign; }
}  // namespace

AlignedBuffer::AlignedBuffer(size_t bytes)
    : mem_(static_cast<std::byte*>(::operator new(round_up(bytes), std::align_val_t{Arena::kAlign}))), size_(bytes) {}

void AlignedBuffer::Free::operator()(std::byte* p) const noexcept { ::operator delete(p, std::align_val_t{Arena::kAlign}); }

std::byte* Arena::take_bytes(size_t bytes) {
  bytes = round_up(std::max<size_t>(bytes, 1));
  if (blocks_.empty() || blocks_.back().size() - offset_ < bytes) grow(bytes);
  std::byte* p = blocks_.back().data() + offset_;
  offset_ += bytes;
  used_ += bytes;
  return p;
}

void Arena::grow(size_t bytes) {
  blocks_.emplace_back(std::max({bytes, capacity_, kFirstBlock}));
  capacity_ += blocks_.back().size();
  offset_ = 0;
  ++allocations_;
}

void Arena::reset() {
  if (blocks_.size() > 1) {
    const size_t total = round_up(capacity_);
    blocks_.clear();  // before the new block: the peak stays what it was
    capacity_ = 0;
    grow(total);
  }
  offset_ = used_ = 0;
}

}  // namespace isotope::base
