// A byte trie over texts, for walks along a text that see every stored prefix.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace isotope::text {

class Trie {
 public:
  /// The children of a node lie together, sorted by byte.
  struct Node {
    uint32_t first = 0;
    uint16_t count = 0;
    uint8_t byte = 0;
    int32_t value = -1;   ///< of the text that ends here, or -1
  };

  /// Texts and their values (not negative); of equal texts the one with the lowest value counts. The texts are not kept.
  void build(std::vector<std::pair<std::string_view, int32_t>> texts);
  /// The node after the first byte of a text, or null.
  const Node* root(uint8_t byte) const {
    const uint32_t i = roots_[byte];
    return i == kNone ? nullptr : &nodes_[i];
  }
  const Node* child(const Node& node, uint8_t byte) const {
    for (const Node *n = nodes_.data() + node.first, *end = n + node.count; n != end; n++)
      if (n->byte >= byte) return n->byte == byte ? n : nullptr;
    return nullptr;
  }

 private:
  static constexpr uint32_t kNone = ~0u;
  std::vector<Node> nodes_;
  std::array<uint32_t, 256> roots_{};
};

}  // namespace isotope::text
