#include "text/trie.h"

#include <algorithm>

namespace isotope::text {

void Trie::build(std::vector<std::pair<std::string_view, int32_t>> texts) {
  std::erase_if(texts, [](const auto& t) { return t.first.empty(); });
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end(), [](const auto& a, const auto& b) { return a.first == b.first; }), texts.end());
  // Breadth first: each entry is the range of texts that share the prefix of a node.
  struct Range { size_t begin, end, depth; uint32_t node; };
  std::vector<Range> queue{{0, texts.size(), 0, 0}};
  nodes_.assign(1, {});
  for (size_t q = 0; q < queue.size(); q++) {
    auto [begin, end, depth, node] = queue[q];
    if (begin < end && texts[begin].first.size() == depth) nodes_[node].value = texts[begin++].second;
    nodes_[node].first = uint32_t(nodes_.size());
    for (size_t i = begin, j; i < end; i = j) {
      const auto byte = uint8_t(texts[i].first[depth]);
      for (j = i; j < end && uint8_t(texts[j].first[depth]) == byte;) j++;
      queue.push_back({i, j, depth + 1, uint32_t(nodes_.size())});
      nodes_.push_back({0, 0, byte, -1});
      nodes_[node].count++;
    }
  }
  roots_.fill(kNone);
  for (uint32_t i = 0; i < nodes_[0].count; i++) roots_[nodes_[nodes_[0].first + i].byte] = nodes_[0].first + i;
}

}  // namespace isotope::text
