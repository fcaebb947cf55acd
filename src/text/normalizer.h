// Normalizers of tokenizer.json: text to text, before the text is cut into words.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"
#include "text/unicode.h"

namespace isotope::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// `text` is valid UTF-8 and stays so.
  virtual void apply(std::string& text, RegexWork&) const = 0;
};

std::unique_ptr<Normalizer> make_normal_form(NormalForm);
std::unique_ptr<Normalizer> make_lowercase();
std::unique_ptr<Normalizer> make_strip(bool left, bool right);
std::unique_ptr<Normalizer> make_strip_accents();
std::unique_ptr<Normalizer> make_replace(std::string literal, std::string content);
Result<std::unique_ptr<Normalizer>> make_regex_replace(std::string_view regex, std::string content);
std::unique_ptr<Normalizer> make_prepend(std::string prefix);
std::unique_ptr<Normalizer> make_byte_alphabet();
std::unique_ptr<Normalizer> make_nmt();
struct BertOptions {
  bool clean_text = true, handle_chinese_chars = true, strip_accents = true, lowercase = true;
};
std::unique_ptr<Normalizer> make_bert_normalizer(BertOptions);
/// SentencePiece's compiled map (normalizer.cc of SentencePiece: a size, a double-array trie, NUL-ended replacements). All offsets are checked when used.
Result<std::unique_ptr<Normalizer>> make_precompiled(std::string charsmap);
std::unique_ptr<Normalizer> make_sequence(std::vector<std::unique_ptr<Normalizer>>);

}  // namespace isotope::text
