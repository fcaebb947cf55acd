#include "text/tokenize_cache.h"

#include <algorithm>
#include <utility>
#include <xxhash.h>

namespace isotope::text {
namespace {

bool same(const std::vector<Span>& a, const std::vector<Span>& b) {
  return std::ranges::equal(a, b, [](const Span& x, const Span& y) { return x.begin == y.begin && x.end == y.end; });
}

/// Where two lists of zones first differ about a byte.
size_t first_difference(std::span<const Span> a, std::span<const Span> b) {
  for (size_t i = 0;; i++) {
    if (i == a.size() || i == b.size()) return i < a.size() ? a[i].begin : i < b.size() ? b[i].begin : std::string_view::npos;
    if (a[i].begin != b[i].begin) return std::min(a[i].begin, b[i].begin);
    if (a[i].end != b[i].end) return std::min(a[i].end, b[i].end);
  }
}

size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  return size_t(std::mismatch(a.begin(), a.begin() + ptrdiff_t(n), b.begin()).first - a.begin());
}

template <class T>
int64_t held(const T& v) { return int64_t(v.capacity() * sizeof v[0]); }

}  // namespace

std::vector<Span> zones_within(const SpecialZones& zones, Span stretch) {
  if (zones.nowhere() || stretch.begin == stretch.end) return {};
  if (zones.everywhere()) return {{0, stretch.end - stretch.begin}};
  std::vector<Span> out;
  for (const Span& z : zones.ranges()) {
    const size_t begin = std::max(z.begin, stretch.begin), end = std::min(z.end, stretch.end);
    if (begin < end) out.push_back({begin - stretch.begin, end - stretch.begin});
  }
  return out;
}

TokenizeCache::Key TokenizeCache::key_of(const Segment& s) {
  uint64_t seed = s.at_start;
  for (const Span& z : s.zones) seed = (seed ^ z.begin) * 0x9E3779B97F4A7C15ull + z.end;
  const XXH128_hash_t h = XXH3_128bits_withSeed(s.text.data(), s.text.size(), seed);
  return {h.low64, h.high64};
}

/// Under the lock. The content decides, not the hash.
TokenizeCache::List::iterator* TokenizeCache::known(const Key& key, const Segment& s) {
  const auto it = segments_.find(key);
  if (it == segments_.end()) return nullptr;
  const Entry& e = *it->second;
  return e.text == s.text && e.at_start == s.at_start && same(e.zones, s.zones) ? &it->second : nullptr;
}

bool TokenizeCache::find(const Segment& s, std::vector<int32_t>& ids) {
  const Key key = key_of(s);
  const std::lock_guard lock(mutex_);
  const auto* entry = known(key, s);
  if (!entry) return false;
  recent_.splice(recent_.begin(), recent_, *entry);
  ids.insert(ids.end(), (*entry)->ids.begin(), (*entry)->ids.end());
  stats_.segment_hits++;
  return true;
}

void TokenizeCache::store(const Segment& s, std::span<const int32_t> ids) {
  Entry e{.key = key_of(s), .prompt = {}, .text = std::string(s.text), .zones = s.zones, .at_start = s.at_start, .ids = {ids.begin(), ids.end()}};
  e.bytes = kEntryOverhead + held(e.text) + held(e.zones) + held(e.ids);
  const std::lock_guard lock(mutex_);
  if (known(e.key, s)) return;
  if (const auto it = segments_.find(e.key); it != segments_.end()) drop(it->second);
  add(std::move(e));
}

TokenizeCache::Shared TokenizeCache::find_prompt(std::string_view text, std::span<const Span> zones, size_t look_ahead) {
  std::vector<std::shared_ptr<const Prompt>> stored;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& it : prompts_) stored.push_back(it->prompt);
  }
  const Prompt* best = nullptr;
  size_t borders = 0;
  for (const auto& p : stored) {
    const size_t certain = std::min(common_prefix(text, p->text), first_difference(zones, p->zones));
    const auto settled = [&](const Border& b) { return std::max(b.begin, b.end.done) + look_ahead <= certain; };
    const auto n = size_t(std::ranges::partition_point(p->borders, settled) - p->borders.begin());
    if (n > 0 && (!best || p->borders[n - 1].end.done > best->borders[borders - 1].end.done)) best = p.get(), borders = n;
  }
  if (!best) return {};
  Shared out{best->borders[borders - 1], {best->borders.begin(), best->borders.begin() + ptrdiff_t(borders)}, {}};
  out.ids.assign(best->ids.begin(), best->ids.begin() + ptrdiff_t(out.border.ids));
  const std::lock_guard lock(mutex_);
  stats_.prompt_hits++;
  for (const auto& it : prompts_)
    if (it->prompt.get() == best) {
      recent_.splice(recent_.begin(), recent_, it);
      break;
    }
  return out;
}

void TokenizeCache::store(Prompt prompt) {
  prompt.text.shrink_to_fit();
  prompt.ids.shrink_to_fit();
  Entry e;
  e.bytes = kEntryOverhead + int64_t(sizeof prompt) + held(prompt.text) + held(prompt.zones) + held(prompt.borders) + held(prompt.ids);
  e.prompt = std::make_shared<const Prompt>(std::move(prompt));
  const std::lock_guard lock(mutex_);
  const auto covers = [&](const List::iterator& it) {  // the longer prompt serves whoever the shorter one would have served
    const Prompt& old = *it->prompt;
    return e.prompt->text.starts_with(old.text) && first_difference(old.zones, e.prompt->zones) >= old.text.size() && e.prompt->borders.size() >= old.borders.size();
  };
  if (const auto it = std::ranges::find_if(prompts_, covers); it != prompts_.end()) drop(*it);
  add(std::move(e));
}

void TokenizeCache::add(Entry e) {
  if (e.bytes > budget_) return;
  while (stats_.bytes + e.bytes > budget_) {
    stats_.evictions++;
    drop(std::prev(recent_.end()));
  }
  stats_.bytes += e.bytes;
  recent_.push_front(std::move(e));
  const auto it = recent_.begin();
  it->prompt ? prompts_.push_back(it) : void(segments_.emplace(it->key, it));
}

void TokenizeCache::drop(List::iterator it) {
  stats_.bytes -= it->bytes;
  it->prompt ? void(std::erase(prompts_, it)) : void(segments_.erase(it->key));
  recent_.erase(it);
}

void TokenizeCache::count_misses(uint64_t n) {
  const std::lock_guard lock(mutex_);
  stats_.misses += n;
}

TokenizeCacheStats TokenizeCache::stats() const {
  const std::lock_guard lock(mutex_);
  TokenizeCacheStats s = stats_;
  s.budget = budget_;
  s.entries = int64_t(recent_.size());
  return s;
}

}  // namespace isotope::text
