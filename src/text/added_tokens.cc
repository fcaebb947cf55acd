#include "text/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "text/unicode.h"

namespace isotope::text {
namespace {

bool is(std::string_view text, size_t at, uint64_t property) {
  const char* p = text.data() + at;
  return (CharTable::get()[next_char(p)] & property) != 0;
}
size_t before(std::string_view text, size_t at) { return size_t(previous_char(text.data() + at) - text.data()); }

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  return (begin == 0 || !is(text, before(text, begin), props::kWord)) && (end == text.size() || !is(text, end, props::kWord));
}

}  // namespace

bool SpecialZones::covers(size_t begin, size_t end) const {
  if (!mixed_) return all_;
  const auto it = std::upper_bound(ranges_.begin(), ranges_.end(), begin, [](size_t b, const Span& s) { return b < s.begin; });
  return it != ranges_.begin() && std::prev(it)->end >= end;
}

size_t SpecialZones::end_of(size_t at) const {
  const auto it = std::upper_bound(ranges_.begin(), ranges_.end(), at, [](size_t b, const Span& s) { return b < s.begin; });
  return it == ranges_.begin() ? at : std::max(at, std::prev(it)->end);
}

size_t SpecialZones::next_start(size_t at) const {
  const auto it = std::upper_bound(ranges_.begin(), ranges_.end(), at, [](size_t b, const Span& s) { return b < s.begin; });
  return it == ranges_.end() ? std::string_view::npos : it->begin;
}

void LiteralSet::build(std::vector<std::pair<std::string, uint32_t>> patterns) {
  std::erase_if(patterns, [](const auto& p) { return p.first.empty(); });
  std::stable_sort(patterns.begin(), patterns.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  patterns.erase(std::unique(patterns.begin(), patterns.end(), [](const auto& a, const auto& b) { return a.first == b.first; }), patterns.end());
  sorted_ = std::move(patterns);
  bucket_.fill(0);
  for (const auto& p : sorted_) bucket_[uint8_t(p.first[0]) + 1]++;
  for (size_t b = 0; b < 256; b++) bucket_[b + 1] += bucket_[b];
  only_first_ = -1;
  if (!sorted_.empty() && sorted_.front().first[0] == sorted_.back().first[0]) only_first_ = uint8_t(sorted_[0].first[0]);
}

size_t LiteralSet::longest() const {
  size_t n = 0;
  for (const auto& p : sorted_) n = std::max(n, p.first.size());
  return n;
}

bool LiteralSet::find_at(std::string_view text, size_t at, Hit& hit) const {
  // Narrow the sorted list byte by byte; the last complete pattern on the way is the longest match.
  const auto first = uint8_t(text[at]);
  auto low = sorted_.begin() + bucket_[first], high = sorted_.begin() + bucket_[first + 1];
  bool found = false;
  for (size_t depth = 1; low != high; depth++) {
    if (low->first.size() == depth) {
      hit = {at, at + depth, low->second};
      found = true;
      if (++low == high) break;
    }
    if (at + depth >= text.size()) break;
    const auto b = uint8_t(text[at + depth]);
    low = std::partition_point(low, high, [&](const auto& p) { return uint8_t(p.first[depth]) < b; });
    high = std::partition_point(low, high, [&](const auto& p) { return uint8_t(p.first[depth]) == b; });
  }
  return found;
}

bool LiteralSet::find(std::string_view text, size_t from, Hit& hit) const {
  if (sorted_.empty()) return false;
  for (size_t at = from; at < text.size(); at++) {
    if (only_first_ >= 0) {
      const void* p = std::memchr(text.data() + at, only_first_, text.size() - at);
      if (!p) return false;
      at = size_t(static_cast<const char*>(p) - text.data());
    } else if (bucket_[uint8_t(text[at])] == bucket_[uint8_t(text[at]) + 1]) {
      continue;
    }
    if (find_at(text, at, hit)) return true;
  }
  return false;
}

void AddedTokens::split(std::string_view text, bool normalized, const SpecialZones& zones, std::vector<Part>& out, CutPoint point) const {
  const LiteralSet& set = normalized ? normalized_ : raw_;
  auto [done, from] = point;
  for (LiteralSet::Hit hit; set.find(text, from, hit);) {
    if (tokens_[hit.value].special && !zones.covers(hit.begin, hit.end)) {
      const size_t end = hit.end, zone_end = zones.end_of(hit.begin);
      // Content may neither become a control token nor spoil one of the template: look for one that ends before the content …
      if (zone_end == hit.begin || !set.find_at(text.substr(0, zone_end), hit.begin, hit)) {
        from = std::min(end, zones.next_start(hit.begin));  // … and search the template text behind it on its own.
        continue;
      }
    }
    const AddedToken& token = tokens_[hit.value];
    from = hit.end;
    if (token.single_word && !stands_alone(text, hit.begin, hit.end)) continue;
    size_t begin = hit.begin, end = hit.end;
    if (token.lstrip) {
      while (begin > done && is(text, before(text, begin), props::kWhite)) begin = before(text, begin);
      begin = std::max(begin, done);
      if (begin >= end) continue;  // all of it is white space that the token before it has taken
    }
    if (token.rstrip)
      while (end < text.size() && is(text, end, props::kWhite)) end += char_length(text[end]);
    if (done < begin) out.push_back({{done, begin}, -1});
    out.push_back({{begin, end}, int32_t(hit.value), from});
    done = end;
  }
  if (done < text.size()) out.push_back({{done, text.size()}, -1});
}

}  // namespace isotope::text
