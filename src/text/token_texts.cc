#include "text/token_texts.h"

#include <algorithm>
#include <array>

#include "text/normalizer.h"

namespace isotope::text {
namespace {

/// Stands for a token that is one space, which trimming would take away.
constexpr std::string_view kSpace = "\xEE\x80\x80";  // U+E000

class Texts final : public TokenTexts {
 public:
  explicit Texts(std::shared_ptr<const Tokenizer> t) : t_(std::move(t)) {}

  int64_t size() const override { return t_->size(); }
  std::string_view spelling(int32_t id) const override { return t_->token_text(id); }
  std::string key(int32_t id) const override {
    const std::string text = t_->decode(std::array{id}, false, InvalidBytes::one_per_part);
    if (text.find(kReplacement) != std::string::npos) return std::string(spelling(id));
    std::string normal = normalized_token(text);
    return normal.empty() ? text : normal;
  }

 private:
  std::shared_ptr<const Tokenizer> t_;
};

bool blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

std::string one_space_each(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i)
    if (!blank(text[i])) out += text[i];
    else if (i == 0 || !blank(text[i - 1])) out += ' ';
  return out;
}

}  // namespace

std::string normalized_token(std::string_view text) {
  RegexWork work;
  static const auto accents = make_strip_accents(), lower = make_lowercase(), strip = make_strip(true, true), space = make_replace(std::string(kSpace), " ");
  std::string s = normalize(normalize(text, NormalForm::nfkc), NormalForm::nfd);
  accents->apply(s, work);
  lower->apply(s, work);
  s = one_space_each(s);
  if (s == " ") s = kSpace;
  strip->apply(s, work);
  space->apply(s, work);
  return s;
}

std::shared_ptr<const TokenTexts> token_texts(std::shared_ptr<const Tokenizer> t) { return std::make_shared<Texts>(std::move(t)); }

Result<std::shared_ptr<const TokenTexts>> read_token_texts(const VocabSource& v) {
  ISO_TRY(auto tokenizer, Tokenizer::create(v));
  return token_texts(std::move(tokenizer));
}

}  // namespace isotope::text
