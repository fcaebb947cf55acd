// Partial selection: what survives top-k, top-p and typical without sorting the vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace isotope::sample {

/// A token that may be drawn. Order: larger key first, lower id among equals; a total order, so every cut is unique.
struct Item {
  float key = 0;   ///< what a cut orders by
  float mass = 0;  ///< unnormalised probability
  int32_t id = -1;
};
inline bool before(const Item& a, const Item& b) noexcept {
  return a.key > b.key || (a.key == b.key && a.id < b.id);
}

/// The k first of x by (value, index), ascending in the order above; fewer if x has fewer values above -inf (NaN never counts).
/// mass = key = value.
void top_k(std::span<const float> x, int64_t k, std::vector<Item>& out);

/// The k-th item. Reorders. REQUIRES 1 <= k <= items.size().
Item kth(std::span<Item> items, int64_t k) noexcept;
/// The last item of the shortest prefix, in order, whose mass reaches `need`; the last of all if it never does. Reorders;
/// expected linear time. REQUIRES !items.empty().
Item nucleus_end(std::span<Item> items, double need) noexcept;

}  // namespace isotope::sample
