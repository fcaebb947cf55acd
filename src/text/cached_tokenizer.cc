#include "text/cached_tokenizer.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/topology.h"
#include "text/unicode.h"

namespace isotope::text {
namespace {

constexpr size_t kBytesPerThread = 32 * 1024;  // less is not worth starting a thread for
constexpr size_t kLongestText = size_t{1} << 31;

thread_local std::string_view current_label;

}  // namespace

RequestLabel::RequestLabel(std::string_view label) : before_(std::exchange(current_label, label)) {}
RequestLabel::~RequestLabel() { current_label = before_; }
std::string_view RequestLabel::current() { return current_label; }

/// A segment that is not in the cache. `part` is its place among the parts of the text.
struct CachedTokenizer::Missing {
  size_t part;
  Span span;
  TokenizeCache::Segment segment;
  std::vector<int32_t> ids;
};

std::unique_ptr<Tokenizer> CachedTokenizer::wrap(std::unique_ptr<Tokenizer> plain, CachedTokenizerOptions options) {
  if (options.budget_bytes <= 0 || !plain->segments()) return plain;
  return std::unique_ptr<Tokenizer>(new CachedTokenizer(std::move(plain), std::move(options)));
}

CachedTokenizer::CachedTokenizer(std::unique_ptr<Tokenizer> plain, CachedTokenizerOptions options)
    : plain_(std::move(plain)), segments_(*plain_->segments()), options_(std::move(options)), cache_(options_.budget_bytes), checks_left_(options_.checks) {
  if (options_.threads <= 0) options_.threads = base::machine().default_threads();
}

bool CachedTokenizer::bypasses(size_t bytes, const std::function<size_t()>& characters) const {
  const bool skip = !enabled_.load(std::memory_order_relaxed) || bytes < options_.min_characters || bytes >= kLongestText || characters() < options_.min_characters;
  bypassed_.fetch_add(skip, std::memory_order_relaxed);
  return skip;
}

std::vector<int32_t> CachedTokenizer::encode(std::string_view text, bool add_special, bool parse_special) const {
  const auto plain = [&] { return plain_->encode(text, add_special, parse_special); };
  if (bypasses(text.size(), [&] { return count_chars(text); })) return plain();
  const JoinedText joined{valid_utf8(text) ? std::string(text) : repair_utf8(text), parse_special ? SpecialZones::all() : SpecialZones::none()};
  auto ids = run(joined, add_special, [&]() -> Result<std::vector<int32_t>> { return plain(); });
  return ids ? std::move(*ids) : plain();
}

std::vector<int32_t> CachedTokenizer::encode_pieces(std::span<const Piece> pieces, bool add_special) const {
  auto ids = try_encode(pieces, add_special);
  return ids ? std::move(*ids) : plain_->encode_pieces(pieces, add_special);
}

Result<std::vector<int32_t>> CachedTokenizer::try_encode(std::span<const Piece> pieces, bool add_special) const {
  const auto sum = [&](auto of) {
    size_t n = 0;
    for (const Piece& p : pieces) n += of(p.text);
    return n;
  };
  const auto plain = [&] { return plain_->try_encode(pieces, add_special); };
  if (bypasses(sum([](const std::string& s) { return s.size(); }), [&] { return sum([](const std::string& s) { return count_chars(s); }); })) return plain();
  return run(join_pieces(pieces), add_special, plain);
}

template <class F>
Result<std::vector<int32_t>> CachedTokenizer::run(const JoinedText& text, bool add_special, F plain) const {
  auto ids = encode_parts(text);
  if (!ids) return plain();  // the plain encoder says what is wrong
  std::vector<int32_t> out = add_special ? segments_.add_special(std::move(*ids)) : std::move(*ids);
  if (checks_left_.load(std::memory_order_relaxed) <= 0 || checks_left_.fetch_sub(1) <= 0) return out;
  checked_.fetch_add(1, std::memory_order_relaxed);
  auto reference = plain();
  if (reference && *reference != out) disable(size_t(std::ranges::mismatch(*reference, out).in1 - reference->begin()));
  return reference;
}

void CachedTokenizer::disable(size_t at) const {
  if (!enabled_.exchange(false)) return;
  if (!options_.warn) return;
  const std::string label(RequestLabel::current());
  options_.warn("the tokenize cache and the plain encoder differ from token " + std::to_string(at) + " on" + (label.empty() ? "" : " in request " + label) +
                "; the cache is off for the rest of this process");
}

/// Ids without what the post-processor adds.
Result<std::vector<int32_t>> CachedTokenizer::encode_parts(const JoinedText& joined) const {
  const std::string_view text = joined.text;
  const std::vector<Span> zones = zones_within(joined.zones, {0, text.size()});
  TokenizeCache::Shared shared = cache_.find_prompt(text, zones, segments_.look_ahead());
  std::vector<AddedTokens::Part> parts;
  segments_.cut(text, joined.zones, shared.border.end, parts);

  std::vector<std::vector<int32_t>> found(parts.size());
  std::vector<Missing> missing;
  for (size_t i = 0; i < parts.size(); i++) {
    if (parts[i].token >= 0) continue;
    const Span s = parts[i].span;
    Missing m{i, s, {text.substr(s.begin, s.end - s.begin), zones_within(joined.zones, s), s.begin == 0}, {}};
    if (!cache_.find(m.segment, found[i])) missing.push_back(std::move(m));
  }
  ISO_CHECK_OK(encode_missing(joined, missing));
  for (Missing& m : missing) {
    cache_.store(m.segment, m.ids);
    found[m.part] = std::move(m.ids);
  }

  std::vector<int32_t> ids = std::move(shared.ids);
  TokenizeCache::Prompt prompt{.text = {}, .zones = {}, .borders = std::move(shared.borders), .ids = {}};
  for (size_t i = 0; i < parts.size(); i++) {
    const AddedTokens::Part& part = parts[i];
    if (part.token < 0) {
      ids.insert(ids.end(), found[i].begin(), found[i].end());
      continue;
    }
    ids.push_back(segments_.added_id(part));
    prompt.borders.push_back({part.span.begin, {part.span.end, part.search}, ids.size()});
  }
  if (!prompt.borders.empty()) {
    const TokenizeCache::Border& last = prompt.borders.back();
    prompt.text = text.substr(0, std::max(last.begin, last.end.done) + segments_.look_ahead());
    prompt.zones = zones_within(joined.zones, {0, prompt.text.size()});
    prompt.ids.assign(ids.begin(), ids.begin() + ptrdiff_t(last.ids));
    cache_.store(std::move(prompt));
  }
  return ids;
}

/// All of them in one batch, the next one to whoever is free.
Result<void> CachedTokenizer::encode_missing(const JoinedText& joined, std::vector<Missing>& missing) const {
  cache_.count_misses(missing.size());
  size_t bytes = 0;
  for (const Missing& m : missing) bytes += m.segment.text.size();
  const size_t threads = std::min({size_t(options_.threads), missing.size(), 1 + bytes / kBytesPerThread});
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < missing.size();)
      if (!segments_.encode_segment(joined.text, missing[i].span, joined.zones, missing[i].ids)) failed = true;
  };
  std::vector<std::thread> others;
  for (size_t t = 1; t < threads; t++) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  if (failed) return fail(Code::unsupported, "a segment cannot be encoded", "tokenize cache", "see the plain encoder's error");
  return {};
}

TokenizeCacheStats CachedTokenizer::stats() const {
  TokenizeCacheStats s = cache_.stats();
  s.bypassed = bypassed_;
  s.checked = checked_;
  s.disabled = !enabled_;
  return s;
}

}  // namespace isotope::text
