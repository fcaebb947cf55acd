#include "text/pre_tokenizer.h"

#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace isotope::text {
namespace {

struct Match {
  Span span;
  bool hit;  ///< the pattern matched here; else the text between matches
};

/// Turns matches (which cover the piece) into pieces, as NormalizedString::split of the reference does. Empty pieces are dropped at the end.
void behave(const std::vector<Match>& matches, Behavior behavior, std::vector<Span>& out) {
  const size_t first = out.size();
  bool previous = false;
  const auto forward = [&](auto joins) {
    for (const Match& m : matches) {
      if (out.size() > first && joins(m)) {
        out.back().end = m.span.end;
      } else {
        out.push_back(m.span);
      }
      previous = m.hit;
    }
  };
  switch (behavior) {
    case Behavior::isolated: forward([](const Match&) { return false; }); break;
    case Behavior::removed:
      for (const Match& m : matches)
        if (!m.hit) out.push_back(m.span);
      break;
    case Behavior::contiguous: forward([&](const Match& m) { return m.hit == previous; }); break;
    case Behavior::merged_with_previous: forward([&](const Match& m) { return m.hit && !previous; }); break;
    case Behavior::merged_with_next: {
      for (size_t i = matches.size(); i-- > 0;) {
        const Match& m = matches[i];
        if (m.hit && !previous && out.size() > first) {
          out.back().begin = m.span.begin;
        } else {
          out.push_back(m.span);
        }
        previous = m.hit;
      }
      std::reverse(out.begin() + long(first), out.end());
      break;
    }
  }
  out.erase(std::remove_if(out.begin() + long(first), out.end(), [](Span s) { return s.begin == s.end; }), out.end());
}

/// A step that only cuts.
class Cutter : public PreTokenizer {
 public:
  void apply(PreText& t) const final {
    t.spare.clear();
    t.spare.reserve(t.pieces.size() + t.text.size() / 8);
    for (const Span s : t.pieces) cut(t, s, t.spare);
    t.pieces.swap(t.spare);
  }

 protected:
  virtual void cut(const PreText& t, Span piece, std::vector<Span>& out) const = 0;
};

/// Collects the matches inside a piece and the stretches between them.
class MatchList {
 public:
  explicit MatchList(Span piece) : at_(piece.begin), end_(piece.end) {}
  void hit(size_t begin, size_t end) {
    if (at_ != begin) list_.push_back({{at_, begin}, false});
    list_.push_back({{begin, end}, true});
    at_ = end;
  }
  std::vector<Match>& finish() {
    if (at_ != end_) list_.push_back({{at_, end_}, false});
    return list_;
  }

 private:
  size_t at_, end_;
  std::vector<Match> list_;
};

class RegexSplit final : public Cutter {
 public:
  RegexSplit(std::unique_ptr<Regex> regex, SplitFunction fast, Behavior behavior, bool invert)
      : regex_(std::move(regex)), fast_(fast), behavior_(behavior), invert_(invert) {}

 private:
  void cut(const PreText& t, Span piece, std::vector<Span>& out) const override {
    if (fast_ && (invert_ ? behavior_ == Behavior::removed : behavior_ == Behavior::isolated)) return fast_(t.piece(piece), piece.begin, out);
    MatchList list(piece);
    if (fast_) {
      std::vector<Span> spans;
      fast_(t.piece(piece), piece.begin, spans);
      for (const Span s : spans) list.hit(s.begin, s.end);
    } else {
      regex_->for_each(t.piece(piece), *t.regex, [&](Span s) { list.hit(piece.begin + s.begin, piece.begin + s.end); });
    }
    auto& matches = list.finish();
    if (invert_)
      for (Match& m : matches) m.hit = !m.hit;
    behave(matches, behavior_, out);
  }
  std::unique_ptr<Regex> regex_;
  SplitFunction fast_;
  Behavior behavior_;
  bool invert_;
};

class LiteralSplit final : public Cutter {
 public:
  LiteralSplit(std::string literal, Behavior behavior, bool invert) : literal_(std::move(literal)), behavior_(behavior), invert_(invert) {}

 private:
  void cut(const PreText& t, Span piece, std::vector<Span>& out) const override {
    const std::string_view text = t.piece(piece);
    MatchList list(piece);
    for (size_t at = literal_.empty() ? std::string_view::npos : text.find(literal_); at != std::string_view::npos; at = text.find(literal_, at + literal_.size()))
      list.hit(piece.begin + at, piece.begin + at + literal_.size());
    auto& matches = list.finish();
    if (invert_)
      for (Match& m : matches) m.hit = !m.hit;
    behave(matches, behavior_, out);
  }
  std::string literal_;
  Behavior behavior_;
  bool invert_;
};

/// Cuts at single characters.
template <class IsHit>
class CharSplit final : public Cutter {
 public:
  CharSplit(IsHit is_hit, Behavior behavior) : is_hit_(is_hit), behavior_(behavior) {}

 private:
  void cut(const PreText& t, Span piece, std::vector<Span>& out) const override {
    const char *base = t.text.data(), *p = base + piece.begin, *end = base + piece.end;
    if (behavior_ == Behavior::isolated) {
      size_t begin = piece.begin;
      while (p < end) {
        const auto at = size_t(p - base);
        if (!is_hit_(next_char(p))) continue;
        if (begin < at) out.push_back({begin, at});
        begin = size_t(p - base);
        out.push_back({at, begin});
      }
      if (begin < piece.end) out.push_back({begin, piece.end});
      return;
    }
    MatchList list(piece);
    while (p < end) {
      const auto at = size_t(p - base);
      if (is_hit_(next_char(p))) list.hit(at, size_t(p - base));
    }
    behave(list.finish(), behavior_, out);
  }
  IsHit is_hit_;
  Behavior behavior_;
};
template <class IsHit>
std::unique_ptr<PreTokenizer> char_split(IsHit is_hit, Behavior behavior) { return std::make_unique<CharSplit<IsHit>>(is_hit, behavior); }

/// Runs of characters of the same class; class 0 is dropped.
template <class Classify>
class RunSplit final : public Cutter {
 public:
  explicit RunSplit(Classify classify) : classify_(classify) {}

 private:
  void cut(const PreText& t, Span piece, std::vector<Span>& out) const override {
    const char *base = t.text.data(), *p = base + piece.begin, *end = base + piece.end;
    int open = 0;
    while (p < end) {
      const auto at = size_t(p - base);
      const int kind = classify_(next_char(p));
      const auto stop = size_t(p - base);
      if (kind == 0 || kind != open || kind == kAlone) {
        if (kind) out.push_back({at, stop});
      } else {
        out.back().end = stop;
      }
      open = kind;
    }
  }
  Classify classify_;

 public:
  static constexpr int kAlone = 99;
};
template <class Classify>
std::unique_ptr<PreTokenizer> run_split(Classify classify) { return std::make_unique<RunSplit<Classify>>(classify); }

/// Cuts where the script changes. As in the reference, what stands before the first character that has a script is lost.
class ScriptSplit final : public Cutter {
 private:
  void cut(const PreText& t, Span piece, std::vector<Span>& out) const override {
    const char *base = t.text.data(), *p = base + piece.begin, *end = base + piece.end;
    const size_t first = out.size();
    uint8_t last = 0;
    while (p < end) {
      const auto at = size_t(p - base);
      const uint8_t script = script_class(next_char(p));
      if (script == 0) continue;
      if (script != last) {
        if (out.size() > first) out.back().end = at;
        out.push_back({at, piece.end});
      }
      last = script;
    }
  }
};

class FixedLength final : public Cutter {
 public:
  explicit FixedLength(size_t chars) : chars_(chars) {}

 private:
  void cut(const PreText& t, Span piece, std::vector<Span>& out) const override {
    for (size_t at = piece.begin; at < piece.end;) {
      size_t stop = at;
      for (size_t n = 0; n < chars_ && stop < piece.end; n++) stop += char_length(t.text[stop]);
      out.push_back({at, stop});
      at = stop;
    }
  }
  size_t chars_;
};

/// A step that writes a new text: f(piece, out) appends what a piece becomes.
template <class F>
void rewrite(PreText& t, F f) {
  t.spare_text.clear();
  t.spare_text.reserve(t.text.size() * 2 + 16);
  for (Span& s : t.pieces) {
    const size_t begin = t.spare_text.size();
    if (t.regex->fits(begin + 2 * (s.end - s.begin))) f(s, t.spare_text);
    s = {begin, t.spare_text.size()};
  }
  t.owned.swap(t.spare_text);
  t.text = t.owned;
}

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex, bool map_bytes) : prefix_(add_prefix_space), regex_(use_regex), map_(map_bytes) {}
  void apply(PreText& t) const override {
    if (prefix_) {
      rewrite(t, [&](Span s, std::string& out) {
        if (t.text[s.begin] != ' ') out += ' ';
        out += t.piece(s);
      });
    }
    if (regex_) {
      t.spare.clear();
      t.spare.reserve(t.pieces.size() + t.text.size() / 4);
      for (const Span s : t.pieces) split_gpt2(t.piece(s), s.begin, t.spare);
      t.pieces.swap(t.spare);
    }
    if (map_) {
      rewrite(t, [&](Span s, std::string& out) {
        for (const char c : t.piece(s)) append_char(out, byte_alphabet::of(uint8_t(c)));
      });
    }
  }

 private:
  bool prefix_, regex_, map_;
};

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string replacement, Prepend prepend, bool split) : replacement_(std::move(replacement)), prepend_(prepend), split_(split) {}
  void apply(PreText& t) const override {
    const bool at_start = t.at_start;
    rewrite(t, [&](Span s, std::string& out) {
      const bool wanted = prepend_ == Prepend::always || (prepend_ == Prepend::first && at_start && s.begin == 0);
      const std::string_view text = t.piece(s);
      if (wanted && text[0] != ' ' && !text.starts_with(replacement_)) out += replacement_;
      for (const char c : text) c == ' ' ? out += replacement_ : out += c;
    });
    if (!split_) return;
    t.spare.clear();
    for (const Span s : t.pieces) {  // merged with the next: a piece starts at every replacement, but a run keeps its first ones apart
      size_t begin = s.begin;
      const std::string_view text = t.piece(s);
      for (size_t at = text.find(replacement_); at != std::string_view::npos; at = text.find(replacement_, at + replacement_.size())) {
        if (s.begin + at > begin) t.spare.push_back({begin, s.begin + at});
        begin = s.begin + at;
      }
      if (begin < s.end) t.spare.push_back({begin, s.end});
    }
    t.pieces.swap(t.spare);
  }

 private:
  std::string replacement_;
  Prepend prepend_;
  bool split_;
};

}  // namespace

Result<std::unique_ptr<PreTokenizer>> make_split(const SplitPattern& pattern, Behavior behavior, bool invert) {
  if (pattern.regex.empty()) return std::make_unique<LiteralSplit>(pattern.literal, behavior, invert);
  const SplitFunction fast = find_fast_split(pattern.regex);
  std::unique_ptr<Regex> regex;
  if (!fast) {
    ISO_TRY(regex, Regex::compile(pattern.regex));
  }
  return std::make_unique<RegexSplit>(std::move(regex), fast, behavior, invert);
}

std::unique_ptr<PreTokenizer> make_char_split(uint64_t properties, Behavior behavior) {
  return char_split([&table = CharTable::get(), properties](char32_t c) { return (table[c] & properties) != 0; }, behavior);
}
std::unique_ptr<PreTokenizer> make_delimiter_split(char32_t delimiter) {
  return char_split([delimiter](char32_t c) { return c == delimiter; }, Behavior::removed);
}
std::unique_ptr<PreTokenizer> make_bert_split() {
  return run_split([&table = CharTable::get()](char32_t c) { return table[c] & props::kWhite ? 0 : table[c] & props::kPunct ? 99 : 1; });
}
std::unique_ptr<PreTokenizer> make_word_split() {
  return run_split([&table = CharTable::get()](char32_t c) { return table[c] & props::kWord ? 1 : table[c] & props::kWhite ? 0 : 2; });
}
std::unique_ptr<PreTokenizer> make_script_split() { return std::make_unique<ScriptSplit>(); }
std::unique_ptr<PreTokenizer> make_fixed_length(size_t chars) { return std::make_unique<FixedLength>(chars); }
std::unique_ptr<PreTokenizer> make_byte_level(bool add_prefix_space, bool use_regex, bool map_bytes) {
  return std::make_unique<ByteLevel>(add_prefix_space, use_regex, map_bytes);
}
std::unique_ptr<PreTokenizer> make_metaspace(std::string replacement, Prepend prepend, bool split) {
  return std::make_unique<Metaspace>(std::move(replacement), prepend, split);
}

}  // namespace isotope::text
