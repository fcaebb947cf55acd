// Regular expressions of tokenizer.json: written for Oniguruma (Ruby syntax), run by PCRE2. What cannot be translated exactly is a load error.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "isotope/result.h"
#include "text/fast_split.h"

namespace isotope::text {

/// Oniguruma's Ruby syntax -> an equivalent PCRE2 pattern for UTF + UCP mode (no group is added that captures).
Result<std::string> translate_regex(std::string_view oniguruma);

/// What matching needs to write; one for each thread at a time. Bounds the time that patterns with runaway backtracking can take, and how much longer
/// normalizers and pre-tokenizers may make a text.
class RegexWork {
 public:
  RegexWork();
  ~RegexWork();
  RegexWork(const RegexWork&) = delete;
  RegexWork& operator=(const RegexWork&) = delete;
  /// Starts a new text of so many bytes: clears `failed` and the clock.
  void begin(size_t text_bytes = 0);
  /// False (and failed) if a text of this size is more than the tokenizer may make of the one begun with.
  bool fits(size_t bytes);
  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
  std::string error_;
  size_t limit_ = size_t{1} << 20;
};

class Regex {
 public:
  static Result<std::unique_ptr<Regex>> compile(std::string_view oniguruma);
  ~Regex();
  /// The first match at or after `from`; false if there is none, or if matching failed (work.failed()). `text` is valid UTF-8.
  bool find(std::string_view text, size_t from, RegexWork& work, Span& match) const;
  /// Calls f(Span) for the matches from left to right. An empty match right behind the last match is passed over, as in the onig crate.
  template <class F>
  void for_each(std::string_view text, RegexWork& work, F f) const {
    size_t from = 0, last = ~size_t{0};
    for (Span m; from <= text.size() && find(text, from, work, m);) {
      if (m.begin == m.end && m.end == last) {
        from = from < text.size() ? from + char_bytes(text[from]) : from + 1;
        continue;
      }
      from = last = m.end;
      f(m);
    }
  }

 private:
  struct Compiled;
  explicit Regex(std::unique_ptr<Compiled>);
  static size_t char_bytes(char lead);
  std::unique_ptr<Compiled> code_;
};

}  // namespace isotope::text
