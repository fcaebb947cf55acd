// Pre-tokenizers: the cuts (and changes of the text) between normalization and the model. Each step refines what the one before left.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/fast_split.h"
#include "text/regex.h"

namespace isotope::text {

/// A text on its way through the steps: the text, and the pieces of it that are left.
struct PreText {
  std::string_view text;     ///< what `pieces` point into; `owned`, or the caller's text as long as no step has changed it
  std::string owned;
  std::vector<Span> pieces;
  bool at_start = true;      ///< the first byte of `text` is the first byte of the input
  RegexWork* regex = nullptr;
  std::vector<Span> spare;   ///< for the steps
  std::string spare_text;

  std::string_view piece(Span s) const { return text.substr(s.begin, s.end - s.begin); }
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(PreText&) const = 0;
};
using PreSteps = std::vector<std::unique_ptr<PreTokenizer>>;

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
/// What a Split looks for.
struct SplitPattern {
  std::string literal, regex;  ///< one of them
};

Result<std::unique_ptr<PreTokenizer>> make_split(const SplitPattern&, Behavior, bool invert);
std::unique_ptr<PreTokenizer> make_char_split(uint64_t properties, Behavior);   ///< at characters that have one of the properties
std::unique_ptr<PreTokenizer> make_delimiter_split(char32_t delimiter);
std::unique_ptr<PreTokenizer> make_bert_split();
std::unique_ptr<PreTokenizer> make_word_split();                                ///< \w+|[^\w\s]+
std::unique_ptr<PreTokenizer> make_script_split();
std::unique_ptr<PreTokenizer> make_fixed_length(size_t chars);
/// `map_bytes` off leaves the bytes as they are, for a model that takes raw bytes.
std::unique_ptr<PreTokenizer> make_byte_level(bool add_prefix_space, bool use_regex, bool map_bytes);
enum class Prepend { always, never, first };
std::unique_ptr<PreTokenizer> make_metaspace(std::string replacement, Prepend, bool split);

}  // namespace isotope::text
