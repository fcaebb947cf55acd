// Tokens that are found in the text before the model sees it: control tokens, and what fine-tunings have added.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/fast_split.h"

namespace isotope::text {

struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool single_word = false, lstrip = false, rstrip = false, normalized = false, special = false;
};

/// Where control tokens may be found: everywhere, nowhere, or inside some ranges of the text.
class SpecialZones {
 public:
  static SpecialZones all() { return SpecialZones(true); }
  static SpecialZones none() { return SpecialZones(false); }
  explicit SpecialZones(std::vector<Span> ranges) : ranges_(std::move(ranges)), mixed_(true) {}

  bool everywhere() const { return !mixed_ && all_; }
  bool nowhere() const { return !mixed_ && !all_; }
  /// The range lies in one zone (neighbouring zones are one).
  bool covers(size_t begin, size_t end) const;
  /// End of the zone that holds `at`, or `at`.
  size_t end_of(size_t at) const;
  /// Start of the first zone that begins after `at`, or npos.
  size_t next_start(size_t at) const;
  const std::vector<Span>& ranges() const { return ranges_; }

 private:
  explicit SpecialZones(bool all) : all_(all) {}
  std::vector<Span> ranges_;  ///< sorted, not touching
  bool mixed_ = false, all_ = false;
};

/// Where a cut goes on behind an added token: the text up to `done` is taken, tokens are looked for from `search` on.
struct CutPoint {
  size_t done = 0, search = 0;
};

/// Finds the leftmost longest of many literal strings.
class LiteralSet {
 public:
  void build(std::vector<std::pair<std::string, uint32_t>> patterns);  ///< text and value; of equal texts the first counts
  bool empty() const { return sorted_.empty(); }
  size_t longest() const;
  struct Hit { size_t begin, end; uint32_t value; };
  bool find(std::string_view text, size_t from, Hit& hit) const;
  /// The longest pattern at `at`.
  bool find_at(std::string_view text, size_t at, Hit& hit) const;

 private:
  std::vector<std::pair<std::string, uint32_t>> sorted_;
  std::array<uint32_t, 257> bucket_{};  ///< patterns that start with byte b are sorted_[bucket_[b]] … sorted_[bucket_[b + 1] - 1]
  int only_first_ = -1;                 ///< the byte all patterns start with, if it is one
};

class AddedTokens {
 public:
  /// A stretch of text, or an added token (`token` >= 0).
  struct Part { Span span; int32_t token = -1; size_t search = 0; };  ///< `search`: behind a token, see CutPoint

  /// `normalized_text(content)` is what the normalizer makes of a token's text.
  template <class F>
  void build(std::vector<AddedToken> tokens, F normalized_text) {
    tokens_ = std::move(tokens);
    std::vector<std::pair<std::string, uint32_t>> raw, normalized;
    for (const bool special : {true, false}) {
      for (size_t i = 0; i < tokens_.size(); i++) {
        const AddedToken& t = tokens_[i];
        if (t.special != special) continue;
        t.normalized ? normalized.emplace_back(normalized_text(t.content), uint32_t(i)) : raw.emplace_back(t.content, uint32_t(i));
      }
    }
    raw_.build(std::move(raw));
    normalized_.build(std::move(normalized));
  }
  const std::vector<AddedToken>& tokens() const { return tokens_; }
  bool any_normalized() const { return !normalized_.empty(); }

  /// Cuts a text at its added tokens: those that match the text as it came, or those that match normalized text.
  void split(std::string_view text, bool normalized, const SpecialZones& zones, std::vector<Part>& out, CutPoint from = {}) const;
  /// Bytes of the longest token that is looked for in the text as it came; 0 if there is none.
  size_t longest_raw() const { return raw_.longest(); }

 private:
  std::vector<AddedToken> tokens_;
  LiteralSet raw_, normalized_;
};

}  // namespace isotope::text
