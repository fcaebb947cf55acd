// Hits whose last windows are gone: full groups hold the whole prefix, and some of its tokens are computed once more for the sake of the windows alone.
#include <algorithm>

#include "base/check.h"
#include "kv/manager.h"

namespace isotope::kv {

/// The hit of the full groups, if windows hold so much less of it that computing its end again is worth while and there is room for it; else the walk's own.
/// Planning counts blocks from where computing begins, in full groups too: the room that it will ask for is what is looked at here.
Hit Manager::replayed(int64_t known, const Walk& w) const {
  const int64_t again = options_.replay_tokens;
  if (again <= 0 || has_states() || (w.full - w.hit.blocks) * block_size_ <= again) return w.hit;
  Hit hit{.blocks = w.full, .again = again, .evictable = {}};
  const int64_t need = blocks_for(known) - (w.full * block_size_ - again) / block_size_;
  for (int g = 0; g < groups(); ++g) {
    const BlockPool& pool = pools_[size_t(g)];
    int64_t& taken = hit.evictable[size_t(g)];
    if (window(g)) taken = 2;  // see begin_windows()
    else
      for (int64_t b = 0; b < w.full; ++b) taken += pool.refs(w.ids[size_t(g)][size_t(b)]) == 0;
    if (pool.available() - taken < (window(g) ? std::min(need, window_blocks(g) + 2) : need)) return w.hit;
  }
  return hit;
}

/// The windows' tables of a hit that is computed again from s.start on. Before that there is nothing that counts, but the first tokens look there: one block
/// of zeros stands for all of it, and the block in which the first token lies begins with zeros. What those tokens give is no token's true value, and never
/// reaches those behind the hit nor, from s.exact_from on, what others may find.
void Manager::begin_windows(SeqBlocks& s, const Hit& hit) {
  s.hit_end = hit.blocks * block_size_;
  s.start = s.hit_end - hit.again;
  const int64_t first = s.start / block_size_;
  s.filled = first + 1;
  s.exact_from = 0;
  for (int g = 0; g < paged_groups(); ++g) {
    if (!window(g)) continue;
    BlockPool& pool = pools_[size_t(g)];
    auto& table = s.tables[size_t(g)];
    const auto zeros = [&] {
      const int32_t id = pool.take();
      ISO_CHECK(id >= 0);  // replayed() has seen two
      options_.clear_block(g, id);
      return id;
    };
    const int64_t seen = std::max<int64_t>(0, s.start - window(g) + 1) / block_size_;
    table[size_t(first)] = zeros();
    s.live_from[size_t(g)] = seen;
    s.exact_from = std::max(s.exact_from, window(g));
    if (seen == first) continue;
    const int32_t before = zeros();
    for (int64_t b = seen; b < first; ++b) {
      table[size_t(b)] = before;
      if (b > seen) pool.ref(before);
    }
  }
  s.exact_from = blocks_for(std::max<int64_t>(0, s.hit_end - s.exact_from));
}

/// How many blocks of each window are still to be taken below the hit's end, for the first `tokens` tokens.
int64_t Manager::windows_lack(const SeqBlocks& s, int64_t tokens) const {
  return s.hit_end ? std::max<int64_t>(0, std::min(blocks_for(tokens), s.hit_end / block_size_) - s.filled) : 0;
}

void Manager::fill_windows(SeqBlocks& s, int64_t tokens) {
  const int64_t end = s.filled + windows_lack(s, tokens);
  for (int g = 0; g < paged_groups(); ++g)
    for (int64_t b = s.filled; window(g) && b < end; ++b) s.tables[size_t(g)][size_t(b)] = pools_[size_t(g)].take();
  s.filled = end;
}

}  // namespace isotope::kv
