#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace isotope::text {
namespace {

constexpr size_t kShortWord = 48;  // up to here scanning all pairs beats a heap
constexpr uint32_t kNone = ~0u;

}  // namespace

void MergeTable::reserve(size_t merges) {
  const size_t n = std::bit_ceil(std::max<size_t>(16, merges * 2));
  slots_.assign(n, {});
  mask_ = n - 1;
  shift_ = 64 - std::countr_zero(n);
  used_ = 0;
}

void MergeTable::set(int32_t left, int32_t right, Merge m) {
  if ((used_ + 1) * 2 > slots_.size()) {
    std::vector<Slot> old;
    old.swap(slots_);
    reserve(std::max<size_t>(16, old.size()));
    for (const Slot& s : old)
      if (s.key != kEmpty) set(int32_t(s.key >> 32), int32_t(uint32_t(s.key)), s.merge);
  }
  const uint64_t key = pack(left, right);
  size_t i = index(key);
  while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
  used_ += slots_[i].key == kEmpty;
  slots_[i] = {key, m};
}

void MetaspaceCuts::keep_together(std::string_view merged) {
  for (size_t at = merged.find(kMetaspace); at != std::string_view::npos; at = merged.find(kMetaspace, at + 3)) {
    if (at == 0 || merged.substr(0, at).ends_with(kMetaspace)) continue;
    together_[uint8_t(merged[at - 1])] = true;
    unsigned byte = 0;
    if (at >= 6 && merged.substr(at - 6, 3) == "<0x" && std::from_chars(&merged[at - 3], &merged[at - 1], byte, 16).ptr == &merged[at - 1]) together_[byte] = true;
  }
}

bool find_byte_tokens(const Vocab& vocab, std::array<int32_t, 256>& ids) {
  constexpr char kHex[] = "0123456789ABCDEF";
  bool all = true;
  for (size_t b = 0; b < 256; b++) {
    const char name[] = {'<', '0', 'x', kHex[b >> 4], kHex[b & 15], '>'};
    ids[b] = vocab.find({name, 6});
    all &= ids[b] >= 0;
  }
  return all;
}

Result<std::unique_ptr<Bpe>> Bpe::prepare(const Vocab& vocab, BpeOptions options, size_t merges) {
  std::unique_ptr<Bpe> bpe(new Bpe(vocab, std::move(options)));
  const BpeOptions& o = bpe->options_;
  if (!o.unk_token.empty()) {
    bpe->unk_id_ = vocab.find(o.unk_token);
    if (bpe->unk_id_ < 0) return fail(Code::data_loss, "unk_token '" + o.unk_token + "' is not in the vocabulary", "BPE model", "the file is damaged; fetch it again");
  }
  bpe->merges_.reserve(merges);
  if (o.byte_level) {
    for (size_t b = 0; b < 256; b++) {
      std::string text;
      append_char(text, byte_alphabet::of(uint8_t(b)));
      bpe->byte_ids_[b] = vocab.find(text);
    }
    if (o.ignore_merges) {
      bpe->raw_vocab_ = std::make_unique<Vocab>();
      bpe->raw_vocab_->reserve(vocab.count(), 0);
      for (int64_t id = 0; id < vocab.size(); id++) {
        if (!vocab.has(int32_t(id)) || vocab.find(vocab.text(int32_t(id))) != id) continue;
        if (const auto raw = byte_alphabet::decode(vocab.text(int32_t(id)))) ISO_CHECK_OK(bpe->raw_vocab_->add(*raw, id));
      }
    }
  } else {
    bpe->all_bytes_ = find_byte_tokens(vocab, bpe->byte_ids_);
    for (size_t c = 0; c < 128; c++) {
      const char text = char(c);
      bpe->ascii_ids_[c] = vocab.find({&text, 1});
    }
  }
  // Parts are independent only if every character gives symbols of its own: what is unknown may be dropped, or fused across the cut.
  if (vocab.find(kMetaspace) >= 0 && !o.byte_level && !o.ignore_merges && o.continuing_subword_prefix.empty() && o.end_of_word_suffix.empty() &&
      ((o.byte_fallback && bpe->all_bytes_) || (bpe->unk_id_ >= 0 && !o.fuse_unk))) {
    bpe->cuts_.enable();
  }
  return bpe;
}

Result<void> Bpe::add_merge(std::string_view left, std::string_view right, size_t rank) {
  const size_t prefix = options_.continuing_subword_prefix.size();
  std::string merged(left);
  merged += right.substr(std::min(prefix, right.size()));
  const int32_t l = vocab_.find(left), r = vocab_.find(right), id = vocab_.find(merged);
  if (l < 0 || r < 0 || id < 0) {
    const std::string_view missing = l < 0 ? left : r < 0 ? right : std::string_view(merged);
    return fail(Code::data_loss, "merge " + std::to_string(rank) + " needs the token '" + std::string(missing.substr(0, 60)) + "', which the vocabulary lacks", "BPE model",
                "the file is damaged; fetch it again");
  }
  merges_.set(l, r, {uint32_t(rank), id});
  cuts_.keep_together(merged);
  if (unk_id_ >= 0 && merged.find(options_.unk_token + std::string(kMetaspace)) != std::string::npos) cuts_.enable(false);  // any character may be unknown
  return {};
}

void Bpe::finish() {}

void Bpe::specials_changed() {
  merges_make_specials_ = false;
  for (int64_t id = 0; id < vocab_.size() && !merges_make_specials_; id++) merges_make_specials_ = special(int32_t(id));
}

const MergeTable::Merge* Bpe::pair(int32_t left, int32_t right, bool allow_special) const {
  const MergeTable::Merge* m = merges_.find(left, right);
  return m && !allow_special && special(m->id) ? nullptr : m;
}

int32_t Bpe::whole_word(std::string_view word) const { return raw_vocab_ ? raw_vocab_->find(word) : vocab_.find(word); }

void Bpe::tokenize(std::string_view word, Scratch& s, std::vector<int32_t>& out) const {
  cuts_.for_each(word, [&](std::string_view part) { tokenize_word(part, s, out); });
}

void Bpe::tokenize_word(std::string_view word, Scratch& s, std::vector<int32_t>& out) const {
  const bool guarded = !s.allow_special && merges_make_specials_;
  const bool cached = word.size() <= WordCache::kMaxWord && !guarded;
  const uint64_t hash = cached ? hash_bytes(word) : 0;
  if (cached && s.cache.find(word, hash, out)) return;
  const size_t first = out.size();
  int32_t whole = -1;
  if (options_.ignore_merges) whole = whole_word(word);
  if (whole >= 0 && !(guarded && special(whole))) {
    out.push_back(whole);
  } else {
    s.symbols.clear();
    options_.byte_level ? split_bytes(word, s.symbols) : split_chars(word, s.symbols);
    if (s.symbols.size() <= kShortWord) {
      merge_short(s.symbols, !guarded, out);
    } else {
      merge_long(s, out);
    }
  }
  if (cached && out.size() > first) s.cache.store(word, hash, out.data() + first, out.size() - first);
}

void Bpe::split_bytes(std::string_view word, std::vector<Symbol>& symbols) const {
  int32_t pending = -1;  // an unknown token that waits for the next known symbol
  for (const char c : word) {
    const int32_t id = byte_ids_[uint8_t(c)];
    if (id >= 0) {
      if (pending >= 0) symbols.push_back({pending});
      pending = -1;
      symbols.push_back({id});
    } else if (unk_id_ >= 0) {
      if (pending >= 0 && !options_.fuse_unk) symbols.push_back({pending});
      pending = unk_id_;
    }
  }
  if (pending >= 0) symbols.push_back({pending});
}

int32_t Bpe::char_id(std::string_view text) const { return text.size() == 1 ? ascii_ids_[uint8_t(text[0]) & 127] : vocab_.find(text); }

void Bpe::split_chars(std::string_view word, std::vector<Symbol>& symbols) const {
  const bool affixes = !options_.continuing_subword_prefix.empty() || !options_.end_of_word_suffix.empty();
  std::string buffer;
  int32_t pending = -1;
  for (size_t i = 0, n; i < word.size(); i += n) {
    n = char_length(word[i]);
    std::string_view text = word.substr(i, n);
    if (affixes) {
      buffer.assign(i ? options_.continuing_subword_prefix : "").append(text);
      if (i + n == word.size()) buffer += options_.end_of_word_suffix;
      text = buffer;
    }
    const int32_t id = affixes ? vocab_.find(text) : char_id(text);
    if (id >= 0) {
      if (pending >= 0) symbols.push_back({pending});
      pending = -1;
      symbols.push_back({id});
      continue;
    }
    const bool bytes = options_.byte_fallback && std::all_of(text.begin(), text.end(), [&](char b) { return byte_ids_[uint8_t(b)] >= 0; });
    if (bytes) {  // the reference leaves a pending unknown token behind the bytes
      for (const char b : text) symbols.push_back({byte_ids_[uint8_t(b)]});
    } else if (unk_id_ >= 0) {
      if (pending >= 0 && !options_.fuse_unk) symbols.push_back({pending});
      pending = unk_id_;
    }
  }
  if (pending >= 0) symbols.push_back({pending});
}

void Bpe::merge_short(std::vector<Symbol>& symbols, bool allow_special, std::vector<int32_t>& out) const {
  size_t n = symbols.size();
  int32_t ids[kShortWord], merged[kShortWord];
  uint32_t ranks[kShortWord];
  for (size_t i = 0; i < n; i++) ids[i] = symbols[i].id;
  const auto look = [&](size_t i) {
    const auto* m = i + 1 < n ? pair(ids[i], ids[i + 1], allow_special) : nullptr;
    ranks[i] = m ? m->rank : kNone;
    merged[i] = m ? m->id : -1;
  };
  for (size_t i = 0; i < n; i++) look(i);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; i++)
      if (ranks[i] < ranks[best]) best = i;
    if (ranks[best] == kNone) break;
    ids[best] = merged[best];
    const size_t tail = n - best - 2;
    std::memmove(ids + best + 1, ids + best + 2, tail * sizeof *ids);
    std::memmove(ranks + best + 1, ranks + best + 2, tail * sizeof *ranks);
    std::memmove(merged + best + 1, merged + best + 2, tail * sizeof *merged);
    n--;
    look(best);
    if (best > 0) look(best - 1);
  }
  out.insert(out.end(), ids, ids + n);
}

void Bpe::merge_long(Scratch& s, std::vector<int32_t>& out) const {
  auto& symbols = s.symbols;
  const auto n = uint32_t(symbols.size());
  const bool allow_special = s.allow_special || !merges_make_specials_;
  // Heap entries are rank << 32 | position; `length` holds the rank under which the pair at a position is valid now.
  auto& heap = s.heap;
  heap.clear();
  const auto look = [&](uint32_t i) -> bool {
    const uint32_t next = symbols[i].next;
    const auto* m = next < n ? pair(symbols[i].id, symbols[next].id, allow_special) : nullptr;
    symbols[i].length = m ? m->rank : kNone;
    if (m) heap.push_back(uint64_t(m->rank) << 32 | i);
    return m != nullptr;
  };
  for (uint32_t i = 0; i < n; i++) symbols[i].prev = i - 1, symbols[i].next = i + 1;
  for (uint32_t i = 0; i < n; i++) look(i);
  const auto lower = std::greater<uint64_t>();
  std::make_heap(heap.begin(), heap.end(), lower);
  while (!heap.empty()) {
    const uint64_t top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), lower);
    heap.pop_back();
    const auto i = uint32_t(top);
    Symbol& a = symbols[i];
    if (a.id < 0 || a.length != uint32_t(top >> 32)) continue;
    Symbol& b = symbols[a.next];
    a.id = merges_.find(a.id, b.id)->id;
    b.id = -1;
    a.next = b.next;
    if (a.next < n) symbols[a.next].prev = i;
    if (look(i)) std::push_heap(heap.begin(), heap.end(), lower);
    if (a.prev < n && look(a.prev)) std::push_heap(heap.begin(), heap.end(), lower);
  }
  for (uint32_t i = 0; i < n; i = symbols[i].next) out.push_back(symbols[i].id);
}

}  // namespace isotope::text
