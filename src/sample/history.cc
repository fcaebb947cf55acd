#include "sample/history.h"

namespace isotope::sample {

TokenCounts::Entry& TokenCounts::entry(int32_t token) {
  if (used_ * 2 >= table_.size()) grow();
  size_t i = (uint32_t(token) * 2654435761u) & (table_.size() - 1);
  while (table_[i].token >= 0 && table_[i].token != token) i = (i + 1) & (table_.size() - 1);
  if (table_[i].token < 0) {
    table_[i].token = token;
    ++used_;
  }
  return table_[i];
}

void TokenCounts::grow() {
  std::vector<Entry> old(table_.size() * 2);
  old.swap(table_);
  used_ = 0;
  for (const Entry& e : old)
    if (e.token >= 0) entry(e.token) = e;
}

}  // namespace isotope::sample
