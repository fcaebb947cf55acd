// The manager's side of stored states of recurrent layers: slots that are no running sequence's, filed under the last block that they cover.
#include "kv/manager.h"

namespace isotope::kv {

/// Where the state after `position` tokens is filed; null where it may not be.
const base::BlockLink* Manager::image_link(const SeqBlocks& s, int64_t position) const {
  const int64_t b = position / block_size_ - 1;
  if (!has_states() || !feeds(s) || b < 0 || position % block_size_ || b >= int64_t(s.links.size())) return nullptr;
  return &s.links[size_t(b)];
}

bool Manager::file_image(const SeqBlocks& s, std::span<const int32_t> tokens, int64_t position, int32_t slot) {
  const base::BlockLink* const link = image_link(s, position);
  BlockPool& pool = pools_.back();
  const int64_t b = position / block_size_ - 1;
  const bool filed = link && pool.publish(slot, {.link = *link, .parent = base::parent_of(s.links, b, block_size_, s.key), .position = int32_t(b)},
                                          tokens.subspan(size_t(b * block_size_), size_t(block_size_)));
  pool.unref(slot);
  return filed;
}

bool Manager::checkpoint(SeqBlocks& s, std::span<const int32_t> tokens, int64_t computed) {
  const base::BlockLink* const link = image_link(s, computed);
  if (!link) return false;
  BlockPool& pool = pools_.back();
  if (const int32_t there = pool.find(*link, tokens.subspan(size_t(computed - block_size_), size_t(block_size_))); there >= 0) {
    pool.ref(there), pool.unref(there);  // the newest again
    return true;
  }
  const int32_t image = pool.take();
  if (image < 0) return false;
  options_.copy_state(groups() - 1, s.tables.back()[0], image);
  return file_image(s, tokens, computed, image);
}

bool Manager::reserve_image(SeqBlocks& s, int64_t position) {
  const base::BlockLink* const link = image_link(s, position);
  if (!link) return false;
  BlockPool& pool = pools_.back();
  if (pool.indexed(*link)) return true;
  const int32_t slot = pool.take();
  if (slot < 0) return false;
  s.images.insert(s.images.begin(), {position, slot});
  return true;
}

int64_t Manager::publish_images(SeqBlocks& s, std::span<const int32_t> tokens) {
  int64_t filed = 0;
  for (const StateImage& i : s.images) filed += file_image(s, tokens, i.position, i.slot);
  s.images.clear();
  return filed;
}

void Manager::cancel_images(SeqBlocks& s) {
  for (const StateImage& i : s.images) pools_.back().unref(i.slot);
  s.images.clear();
}

}  // namespace isotope::kv
