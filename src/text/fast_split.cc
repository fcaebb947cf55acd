#include "text/fast_split.h"

#include "text/unicode.h"

namespace isotope::text {
namespace {

using namespace props;

/// What distinguishes the patterns of one family. Masks are over general categories and flags.
struct Rules {
  bool cased_words = false;      ///< o200k family: words break between a lower-case and an upper-case letter
  bool contractions = true;      ///< cl100k family: an own alternative; o200k family: the end of a word
  uint64_t letters = kLetter;    ///< cl100k family: what words are made of
  int digits = 1;                ///< longest run of numbers
  bool slash_after_punctuation = false;
  bool han_runs = false;         ///< runs of Han are pieces of their own and no part of words
};

class Scanner {
 public:
  Scanner(std::string_view text) : begin_(text.data()), end_(begin_ + text.size()), table_(CharTable::get()), ascii_(table_.ascii()) {}
  const char* begin() const { return begin_; }
  const char* end() const { return end_; }

  /// Property word of the character at p and, in `next`, where the following one starts; 0 at the end of the text.
  uint64_t at(const char* p, const char*& next) const {
    if (p == end_) return 0;
    if (uint8_t(*p) < 0x80) return next = p + 1, ascii_[uint8_t(*p)];
    next = p;
    const char32_t c = next_char(next);
    return table_[c];
  }
  uint64_t at(const char* p) const {
    const char* next;
    return at(p, next);
  }
  /// End of the run of characters that have one of the properties.
  const char* run(const char* p, uint64_t any) const {
    const char* next = p;
    while (at(p, next) & any) p = next;
    return p;
  }
  /// End of the run of characters that have none of the properties.
  const char* run_without(const char* p, uint64_t none) const {
    const char* next = p;
    while (p != end_ && !(at(p, next) & none)) p = next;
    return p;
  }
  /// Length of 's 't 're 've 'm 'll 'd at p, or 0.
  template <bool kAnyCase>
  size_t contraction(const char* p) const {
    if (end_ - p < 2 || *p != '\'') return 0;
    const auto lower = [](char c) { return kAnyCase && c >= 'A' && c <= 'Z' ? char(c + 32) : c; };
    const char a = lower(p[1]);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (end_ - p < 3) return 0;
    const char b = lower(p[2]);
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
    return kAnyCase && p[1] == '\xC5' && p[2] == '\xBF' ? 3 : 0;  // U+017F folds to s
  }
  /// \s+(?!\S)|\s+ at a run of white space that ends at `stop`.
  const char* blank(const char* p, const char* stop) const {
    if (stop == end_) return stop;
    const char* last = previous_char(stop);
    return last > p ? last : stop;
  }

 private:
  const char *begin_, *end_;
  const CharTable& table_;
  const uint64_t* ascii_;
};

constexpr uint64_t kUpper = kUpperish | gc(Gc::Lm) | gc(Gc::Lo) | kMark;         // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
constexpr uint64_t kLower = gc(Gc::Ll) | gc(Gc::Lm) | gc(Gc::Lo) | kMark;        // [\p{Ll}\p{Lm}\p{Lo}\p{M}]

/// The words of the o200k family, U*W+ and U+W* with U upper-ish and W lower-ish; both hold the caseless letters and marks.
template <Rules R>
struct CasedWord {
  const Scanner& s;

  uint64_t at(const char* p, const char*& next) const {
    const uint64_t w = s.at(p, next);
    return R.han_runs && (w & kHan) ? 0 : w;
  }
  const char* run(const char* p, uint64_t any) const {
    const char* next = p;
    while (at(p, next) & any) p = next;
    return p;
  }
  /// U*W+: the greedy U* gives back characters until one of them is in W. Null if there is no match.
  const char* mixed(const char* p) const {
    const char* caseless_end = nullptr;  // behind the last character of the U run that W holds as well
    const char* next = p;
    const char* q = p;
    for (uint64_t w; (w = at(q, next)) & kUpper; q = next)
      if (w & kLower) caseless_end = next;
    const char* stop = run(q, kLower);
    return stop > q ? stop : caseless_end;
  }
  /// U+W*
  const char* upper(const char* p) const {
    const char* q = run(p, kUpper);
    return q > p ? run(q, kLower) : nullptr;
  }
  const char* match(const char* p, uint64_t first, const char* second) const {
    const bool prefix = !(first & (kLetter | kNumber | kNewline));
    const char* e = prefix ? mixed(second) : nullptr;
    if (!e) e = mixed(p);
    if (!e && prefix) e = upper(second);
    if (!e) e = upper(p);
    if (e && R.contractions) e += s.contraction<true>(e);
    return e;
  }
};

template <Rules R>
const char* word(const Scanner& s, const char* p, uint64_t first, const char* second) {
  if constexpr (R.cased_words) {
    if (R.han_runs && (first & kHan)) return s.run(p, kHan);
    return CasedWord<R>{s}.match(p, first, second);
  } else {
    if (R.contractions)
      if (const size_t n = s.contraction<true>(p)) return p + n;
    if (first & R.letters) return s.run(second, R.letters);
    if (first & (kNumber | kNewline) || !(s.at(second) & R.letters)) return nullptr;
    return s.run(second, R.letters);
  }
}

template <Rules R>
const char* next_piece(const Scanner& s, const char* p) {
  const char* second = p;
  const uint64_t first = s.at(p, second);
  if (const char* e = word<R>(s, p, first, second)) return e;
  if (first & kNumber) {
    const char* q = second;
    for (int i = 1; i < R.digits && (s.at(q, second) & kNumber); i++) q = second;
    return q;
  }
  constexpr uint64_t kNoPunctuation = kWhite | kNumber | (R.cased_words ? kLetter : R.letters);
  const char* third = second;
  const bool space = *p == ' ' && second != s.end() && !(s.at(second, third) & kNoPunctuation);
  if (space || !(first & kNoPunctuation)) {
    const char* q = s.run_without(second, kNoPunctuation);
    while (q != s.end() && (*q == '\r' || *q == '\n' || (R.slash_after_punctuation && *q == '/'))) q++;
    return q;
  }
  const char* stop = s.run(p, kWhite);
  for (const char* q = stop; q > p; q--)
    if (q[-1] == '\r' || q[-1] == '\n') return q;
  return stop > p ? s.blank(p, stop) : second;
}

template <Rules R>
void split(std::string_view text, size_t base, std::vector<Span>& out) {
  const Scanner s(text);
  for (const char* p = s.begin(); p != s.end();) {
    const char* q = next_piece<R>(s, p);
    out.push_back({base + size_t(p - s.begin()), base + size_t(q - s.begin())});
    p = q;
  }
}

const char* next_gpt2(const Scanner& s, const char* p) {
  if (const size_t n = s.contraction<false>(p)) return p + n;
  const char* second = p;
  uint64_t first = s.at(p, second);
  const char* start = p;
  if (*p == ' ' && second != s.end() && !(s.at(second) & kWhite)) start = second, first = s.at(start);
  if (first & kLetter) return s.run(start, kLetter);
  if (first & kNumber) return s.run(start, kNumber);
  if (!(first & kWhite)) return s.run_without(start, kWhite | kLetter | kNumber);
  return s.blank(p, s.run(p, kWhite));
}

constexpr Rules kLlama3Rules{.digits = 3}, kQwen2Rules{.digits = 1}, kQwen35Rules{.letters = kLetter | kMark, .digits = 1},
    kO200kRules{.cased_words = true, .digits = 3, .slash_after_punctuation = true},
    kTekkenRules{.cased_words = true, .contractions = false, .digits = 1, .slash_after_punctuation = true},
    kKimiRules{.cased_words = true, .digits = 3, .han_runs = true};

constexpr FastPattern kFast[] = {
    {"gpt2", patterns::kGpt2, split_gpt2},
    {"llama3", patterns::kLlama3, split<kLlama3Rules>},
    {"qwen2", patterns::kQwen2, split<kQwen2Rules>},
    {"qwen3.5", patterns::kQwen35, split<kQwen35Rules>},
    {"o200k", patterns::kO200k, split<kO200kRules>},
    {"tekken", patterns::kTekken, split<kTekkenRules>},
    {"kimi", patterns::kKimi, split<kKimiRules>},
};

}  // namespace

void split_gpt2(std::string_view text, size_t base, std::vector<Span>& out) {
  const Scanner s(text);
  for (const char* p = s.begin(); p != s.end();) {
    const char* q = next_gpt2(s, p);
    out.push_back({base + size_t(p - s.begin()), base + size_t(q - s.begin())});
    p = q;
  }
}

std::span<const FastPattern> fast_patterns() { return kFast; }

SplitFunction find_fast_split(std::string_view regex) {
  for (const FastPattern& f : kFast)
    if (f.regex == regex) return f.split;
  return nullptr;
}

}  // namespace isotope::text
