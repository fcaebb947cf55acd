#include "text/vocab.h"

#include <algorithm>
#include <bit>
#include <xxhash.h>

namespace isotope::text {

uint64_t hash_bytes(std::string_view s) { return XXH3_64bits(s.data(), s.size()); }

void Vocab::reserve(size_t tokens, size_t bytes) {
  arena_.reserve(bytes);
  spans_.reserve(tokens);
  const size_t want = std::bit_ceil(std::max<size_t>(16, tokens * 2));
  while (slots_.size() < want) grow();
}

void Vocab::grow() {
  std::vector<Slot> old(std::max<size_t>(16, slots_.size() * 2));
  old.swap(slots_);
  if (count_ == 0) return;
  for (const Slot& s : old)
    if (s.id >= 0) slot(view(s.key), hash_bytes(view(s.key))) = s;
}

Vocab::Slot& Vocab::slot(std::string_view text, uint64_t hash) {
  const size_t mask = slots_.size() - 1;
  const auto tag = uint32_t(hash >> 32);
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    Slot& s = slots_[i];
    if (s.id < 0 || (s.tag == tag && view(s.key) == text)) return s;
  }
}

Result<void> Vocab::add(std::string_view text, int64_t id) {
  if (id < 0 || id >= kMaxId) {
    return fail(Code::data_loss, "token id " + std::to_string(id) + " of '" + std::string(text.substr(0, 40)) + "' is out of range", "tokenizer vocabulary",
                "the file is damaged; fetch it again");
  }
  if ((count_ + 1) * 2 > slots_.size()) grow();
  const Span span{arena_.size(), uint32_t(text.size())};
  arena_ += text;
  const uint64_t hash = hash_bytes(text);
  Slot& s = slot(text, hash);
  count_ += s.id < 0;
  s = {uint32_t(hash >> 32), int32_t(id), span};
  if (size_t(id) >= spans_.size()) spans_.resize(size_t(id) + 1);
  spans_[size_t(id)] = span;
  longest_ = std::max(longest_, text.size());
  return {};
}

int32_t Vocab::find(std::string_view text) const {
  if (slots_.empty() || text.size() > longest_) return -1;
  const uint64_t hash = hash_bytes(text);
  const size_t mask = slots_.size() - 1;
  const auto tag = uint32_t(hash >> 32);
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& s = slots_[i];
    if (s.id < 0) return -1;
    if (s.tag == tag && view(s.key) == text) return s.id;
  }
}

std::string_view Vocab::text(int32_t id) const { return has(id) ? view(spans_[size_t(id)]) : std::string_view{}; }

}  // namespace isotope::text
