#include "kv/block_index.h"

#include <algorithm>
#include <bit>

namespace isotope::kv {

BlockIndex::BlockIndex(int64_t blocks) {
  const size_t n = std::bit_ceil(size_t(std::max<int64_t>(1, blocks)) * 2);
  slots_.assign(n, Slot{0, -1});
  shift_ = 64 - std::countr_zero(n);
}

int32_t BlockIndex::find(uint64_t hash) const noexcept {
  for (size_t i = home(hash); slots_[i].block >= 0; i = next(i))
    if (slots_[i].hash == hash) return slots_[i].block;
  return -1;
}

int64_t BlockIndex::find_run(std::span<const base::BlockLink> links, std::span<int32_t> ids) const noexcept {
  for (const base::BlockLink& l : links) __builtin_prefetch(&slots_[home(l.hash)]);
  for (size_t i = 0; i < links.size(); ++i)
    if ((ids[i] = find(links[i].hash)) < 0) return int64_t(i);
  return int64_t(links.size());
}

void BlockIndex::insert(uint64_t hash, int32_t block) noexcept {
  size_t i = home(hash);
  while (slots_[i].block >= 0) i = next(i);
  slots_[i] = {hash, block};
  ++size_;
}

void BlockIndex::erase(uint64_t hash) noexcept {
  size_t i = home(hash);
  while (slots_[i].block >= 0 && slots_[i].hash != hash) i = next(i);
  if (slots_[i].block < 0) return;
  --size_;
  // Close the gap: move back every later entry of the run that may sit here.
  for (size_t j = next(i); slots_[j].block >= 0; j = next(j)) {
    const size_t h = home(slots_[j].hash), mask = slots_.size() - 1;
    if (((j - h) & mask) >= ((j - i) & mask)) {
      slots_[i] = slots_[j];
      i = j;
    }
  }
  slots_[i].block = -1;
}

void BlockIndex::clear() noexcept {
  for (Slot& s : slots_) s.block = -1;
  size_ = 0;
}

}  // namespace isotope::kv
