// SentencePiece BPE from scores. Pairs rank as in the published conversions to merge lists: by the rank of the merged piece, then by the length of the
// left part, then of the right part, both longest first.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "text/bpe.h"
#include "text/unicode.h"

namespace isotope::text {
namespace {

constexpr int kMemoBits = 16;

/// Where normal pieces stand in the order of their scores, the position is the rank of all pieces (so it is with Gemma, whose user-defined pieces carry
/// meaningless scores); else user-defined pieces come first, then the others by score, equal scores with equal rank.
std::vector<uint32_t> ranks(const ScoredBpe::Options& o, size_t n) {
  const auto first = [&](uint32_t id) { return id < o.first.size() && o.first[id]; };
  const auto score = [&](uint32_t id) {
    const float s = id < o.scores.size() ? o.scores[id] : 0.0f;
    return s == s ? s : -std::numeric_limits<float>::infinity();  // NaN has no place in an order
  };
  std::vector<uint32_t> rank(n), order(n);
  std::iota(rank.begin(), rank.end(), 0u);
  std::iota(order.begin(), order.end(), 0u);
  float last = std::numeric_limits<float>::infinity();
  const bool sorted = std::all_of(order.begin(), order.end(), [&](uint32_t id) {
    if (first(id) || id >= o.mergeable.size() || !o.mergeable[id]) return true;
    return score(id) < std::exchange(last, score(id));
  });
  if (sorted) return rank;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (first(a) != first(b)) return first(a);
    return !first(a) && score(a) != score(b) ? score(a) > score(b) : a < b;
  });
  uint32_t next = 0;
  for (size_t i = 0; i < n; i++) {
    if (i > 0 && (first(order[i]) || first(order[i - 1]) || score(order[i]) != score(order[i - 1]))) next++;
    rank[order[i]] = next;
  }
  return rank;
}

}  // namespace

std::unique_ptr<ScoredBpe> ScoredBpe::create(const Vocab& vocab, Options options) {
  std::unique_ptr<ScoredBpe> bpe(new ScoredBpe(vocab, std::move(options)));
  const Options& o = bpe->options_;
  bpe->all_bytes_ = find_byte_tokens(vocab, bpe->byte_ids_);
  bpe->rank_ = ranks(o, size_t(vocab.size()));
  if (bpe->piece(kMetaspace) >= 0 && bpe->all_bytes_) bpe->cuts_.enable();
  for (int64_t id = 0; id < vocab.size(); id++)
    if (size_t(id) < o.mergeable.size() && o.mergeable[size_t(id)]) bpe->cuts_.keep_together(vocab.text(int32_t(id)));
  return bpe;
}

int32_t ScoredBpe::piece(std::string_view text) const {
  const int32_t id = vocab_.find(text);
  return id >= 0 && size_t(id) < options_.mergeable.size() && options_.mergeable[size_t(id)] ? id : -1;
}

void ScoredBpe::tokenize(std::string_view word, Scratch& s, std::vector<int32_t>& out) const {
  cuts_.for_each(word, [&](std::string_view part) { tokenize_word(part, s, out); });
}

void ScoredBpe::split_chars(std::string_view word, std::vector<Symbol>& symbols) const {
  int32_t pending = -1;  // unknown characters in a row give one unknown token
  for (size_t i = 0, n; i < word.size(); i += n) {
    n = char_length(word[i]);
    const std::string_view text = word.substr(i, n);
    const int32_t id = piece(text);
    if (id >= 0) {
      if (pending >= 0) symbols.push_back({pending});
      pending = -1;
      symbols.push_back({id, uint32_t(i), uint32_t(n)});
    } else if (std::all_of(text.begin(), text.end(), [&](char b) { return byte_ids_[uint8_t(b)] >= 0; })) {
      for (const char b : text) symbols.push_back({byte_ids_[uint8_t(b)]});
    } else if (options_.unk_id >= 0) {
      pending = options_.unk_id;
    }
  }
  if (pending >= 0) symbols.push_back({pending});
}

Scratch::PairMemo ScoredBpe::look_up(std::string_view word, const Symbol& a, const Symbol& b) const {
  Scratch::PairMemo m{uint64_t(uint32_t(a.id)) << 32 | uint32_t(b.id), 0, -1};
  m.id = piece(word.substr(a.begin, a.length + b.length));
  if (m.id < 0) return m;
  const auto inverse = [&](const Symbol& s) { return 0xFFFF - uint64_t(std::min<size_t>(count_chars(word.substr(s.begin, s.length)), 0xFFFF)); };
  m.key = uint64_t(rank_[size_t(m.id)]) << 32 | inverse(a) << 16 | inverse(b);
  return m;
}

std::optional<Scratch::KeyedPair> ScoredBpe::pair(std::string_view word, uint32_t left, Scratch& s) const {
  const Symbol& a = s.symbols[left];
  if (a.next >= s.symbols.size()) return std::nullopt;
  const Symbol& b = s.symbols[a.next];
  if (a.length == 0 || b.length == 0) return std::nullopt;
  const uint64_t both = uint64_t(uint32_t(a.id)) << 32 | uint32_t(b.id);
  Scratch::PairMemo& memo = s.pairs[(both * 0x9E3779B97F4A7C15ull) >> (64 - kMemoBits)];
  if (memo.pair != both) memo = look_up(word, a, b);
  if (memo.id < 0) return std::nullopt;
  return Scratch::KeyedPair{memo.key, uint32_t(memo.id), left};
}

void ScoredBpe::tokenize_word(std::string_view word, Scratch& s, std::vector<int32_t>& out) const {
  const bool cached = word.size() <= WordCache::kMaxWord;
  const uint64_t hash = cached ? hash_bytes(word) : 0;
  if (cached && s.cache.find(word, hash, out)) return;
  if (s.pairs.empty()) s.pairs.resize(size_t{1} << kMemoBits);
  const size_t first = out.size();
  auto& symbols = s.symbols;
  symbols.clear();
  split_chars(word, symbols);
  const auto n = uint32_t(symbols.size());
  const auto later = [](const Scratch::KeyedPair& a, const Scratch::KeyedPair& b) {
    return a.key != b.key ? a.key > b.key : a.id != b.id ? a.id > b.id : a.left > b.left;
  };
  auto& heap = s.keyed_heap;
  heap.clear();
  const auto look = [&](uint32_t i) -> bool {
    const auto p = pair(word, i, s);
    if (p) heap.push_back(*p);
    return p.has_value();
  };
  for (uint32_t i = 0; i < n; i++) symbols[i].prev = i - 1, symbols[i].next = i + 1;
  for (uint32_t i = 0; i < n; i++) look(i);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    const Scratch::KeyedPair top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    Symbol& a = symbols[top.left];
    if (a.id < 0 || a.next >= n) continue;
    Symbol& b = symbols[a.next];
    const auto now = pair(word, top.left, s);  // the entry is stale unless the two still make its piece
    if (!now || now->key != top.key || now->id != top.id) continue;
    a.id = int32_t(top.id);
    a.length += b.length;
    b.id = -1;
    a.next = b.next;
    if (a.next < n) symbols[a.next].prev = top.left;
    if (look(top.left)) std::push_heap(heap.begin(), heap.end(), later);
    if (a.prev < n && look(a.prev)) std::push_heap(heap.begin(), heap.end(), later);
  }
  for (uint32_t i = 0; i < n; i = symbols[i].next) out.push_back(symbols[i].id);
  if (cached && out.size() > first) s.cache.store(word, hash, out.data() + first, out.size() - first);
}

}  // namespace isotope::text
