#include "text/model.h"

#include <algorithm>
#include <cstring>

namespace isotope::text {

bool WordCache::find(std::string_view word, uint64_t hash, std::vector<int32_t>& out) const {
  if (word.size() > kMaxWord) return false;
  const Entry& e = entries_[hash & (kEntries - 1)];
  if (e.tag != uint32_t(hash >> 32) || e.length != word.size() || e.count == 0 || std::memcmp(e.word, word.data(), word.size()) != 0) return false;
  out.insert(out.end(), e.ids, e.ids + e.count);
  return true;
}

void WordCache::store(std::string_view word, uint64_t hash, const int32_t* ids, size_t n) {
  if (word.size() > kMaxWord || n > kMaxIds) return;
  Entry& e = entries_[hash & (kEntries - 1)];
  e.tag = uint32_t(hash >> 32);
  e.length = uint8_t(word.size());
  e.count = uint8_t(n);
  std::memcpy(e.word, word.data(), word.size());
  std::copy(ids, ids + n, e.ids);
}

}  // namespace isotope::text
