#include "base/near_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace isotope::base {
namespace {

size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = a[i] == b[j] ? diagonal : 1 + std::min({diagonal, above, row[j]});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names, size_t most) {
  std::string_view best;
  size_t least = most + 1;
  for (const std::string_view name : names) {
    const size_t longer = std::max(word.size(), name.size()) - std::min(word.size(), name.size());
    if (longer >= least) continue;
    if (const size_t n = edits(word, name); n < least) {
      least = n;
      best = name;
    }
  }
  return best;
}

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names) {
  constexpr size_t kLongest = 64;  // a name has never more
  if (word.empty() || word.size() > kLongest) return {};
  return nearest_name(word, names, std::min(std::max<size_t>(2, word.size() / 4), word.size() - 1));
}

}  // namespace isotope::base
