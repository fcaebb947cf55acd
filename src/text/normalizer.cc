#include "text/normalizer.h"

#include <algorithm>

#include "text/byte_alphabet.h"

namespace isotope::text {
namespace {

template <class F>
class Function final : public Normalizer {
 public:
  explicit Function(F f) : f_(std::move(f)) {}
  void apply(std::string& text, RegexWork& work) const override { f_(text, work); }

 private:
  F f_;
};
template <class F>
std::unique_ptr<Normalizer> function(F f) { return std::make_unique<Function<F>>(std::move(f)); }

/// Rewrites a text character by character: f(out, c).
template <class F>
void map_chars(std::string& text, F f) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (const char *p = text.data(), *end = p + text.size(); p < end;) f(out, next_char(p));
  text.swap(out);
}

void drop(std::string& text, uint64_t properties) {
  map_chars(text, [&, &table = CharTable::get()](std::string& out, char32_t c) {
    if (!(table[c] & properties)) append_char(out, c);
  });
}

void trim(std::string& text, bool left, bool right) {
  const CharTable& table = CharTable::get();
  const auto white = [&](const char* p) { return (table[next_char(p)] & props::kWhite) != 0; };
  const char *begin = text.data(), *end = begin + text.size();
  while (right && end > begin && white(previous_char(end))) end = previous_char(end);
  while (left && begin < end && white(begin)) begin += char_length(*begin);
  text = std::string(begin, end);
}

void nmt(std::string& out, char32_t c) {
  const bool removed = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  const bool blank = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  if (blank) {
    out += ' ';
  } else if (!removed) {
    append_char(out, c);
  }
}

class Bert final : public Normalizer {
 public:
  explicit Bert(BertOptions o) : o_(o) {}
  void apply(std::string& text, RegexWork&) const override {
    const CharTable& table = CharTable::get();
    if (o_.clean_text) {
      map_chars(text, [&](std::string& out, char32_t c) {
        if (table[c] & props::kControl) return;
        table[c] & props::kWhite ? out += ' ' : (append_char(out, c), out);
      });
    }
    if (o_.handle_chinese_chars) {
      map_chars(text, [&](std::string& out, char32_t c) {
        const bool cjk = table[c] & props::kCjk;
        if (cjk) out += ' ';
        append_char(out, c);
        if (cjk) out += ' ';
      });
    }
    if (o_.strip_accents) {
      text = normalize(text, NormalForm::nfd);
      drop(text, props::kNonspacing);
    }
    if (o_.lowercase) map_chars(text, append_lower);
  }

 private:
  BertOptions o_;
};

class Precompiled final : public Normalizer {
 public:
  Precompiled(std::string charsmap, size_t units) : map_(std::move(charsmap)), units_(units) {}

  void apply(std::string& text, RegexWork& work) const override {
    std::string out;
    out.reserve(text.size() + 16);
    size_t begin = 0;
    for (const size_t end : grapheme_ends(text)) {
      const std::string_view grapheme = std::string_view(text).substr(begin, end - begin);
      begin = end;
      if (!work.fits(out.size())) break;
      std::string_view mapped;
      if (grapheme.size() < 6 && find(grapheme, mapped)) {  // the reference looks whole clusters up only if they are short
        out += mapped;
        continue;
      }
      for (size_t i = 0, n; i < grapheme.size(); i += n) {
        n = char_length(grapheme[i]);
        out += find(grapheme.substr(i, n), mapped) ? mapped : grapheme.substr(i, n);
      }
    }
    text.swap(out);
  }

 private:
  uint32_t unit(size_t i) const {
    if (i >= units_) return 0;
    const auto* p = reinterpret_cast<const uint8_t*>(map_.data()) + 4 + i * 4;
    return uint32_t(p[0]) | uint32_t(p[1]) << 8 | uint32_t(p[2]) << 16 | uint32_t(p[3]) << 24;
  }
  static size_t offset(uint32_t u) { return size_t(u >> 10) << ((u & (1u << 9)) >> 6); }

  /// The replacement of the shortest prefix of `key` that the trie holds.
  bool find(std::string_view key, std::string_view& mapped) const {
    size_t node = offset(unit(0));
    for (const char c : key) {
      if (c == 0) return false;
      node ^= uint8_t(c);
      const uint32_t u = unit(node);
      if ((u & (0x80000000u | 0xFF)) != uint8_t(c)) return false;
      node ^= offset(u);
      if (!(u >> 8 & 1)) continue;
      const size_t start = 4 + units_ * 4 + (unit(node) & 0x7FFFFFFF);
      if (start >= map_.size()) return false;
      const size_t stop = map_.find('\0', start);
      mapped = std::string_view(map_).substr(start, stop == std::string::npos ? stop : stop - start);
      return valid_utf8(mapped);
    }
    return false;
  }
  std::string map_;
  size_t units_;
};

}  // namespace

std::unique_ptr<Normalizer> make_normal_form(NormalForm form) {
  return function([form](std::string& t, RegexWork& work) {
    if (work.fits(t.size())) t = normalize(t, form);
  });
}
std::unique_ptr<Normalizer> make_lowercase() {
  return function([](std::string& t, RegexWork&) { map_chars(t, append_lower); });
}
std::unique_ptr<Normalizer> make_strip(bool left, bool right) {
  return function([=](std::string& t, RegexWork&) { trim(t, left, right); });
}
std::unique_ptr<Normalizer> make_strip_accents() {
  return function([](std::string& t, RegexWork&) { drop(t, props::kAccent); });
}
std::unique_ptr<Normalizer> make_byte_alphabet() {
  return function([](std::string& t, RegexWork& work) {
    if (work.fits(t.size() * 2)) t = byte_alphabet::encode(t);
  });
}
std::unique_ptr<Normalizer> make_nmt() {
  return function([](std::string& t, RegexWork&) { map_chars(t, nmt); });
}
std::unique_ptr<Normalizer> make_prepend(std::string prefix) {
  return function([prefix = std::move(prefix)](std::string& t, RegexWork&) {
    if (!t.empty()) t.insert(0, prefix);
  });
}
std::unique_ptr<Normalizer> make_replace(std::string literal, std::string content) {
  return function([literal = std::move(literal), content = std::move(content)](std::string& t, RegexWork& work) {
    size_t hit = literal.empty() ? std::string::npos : t.find(literal);
    if (hit == std::string::npos) return;
    std::string out;
    out.reserve(t.size() + t.size() / 4);
    size_t at = 0;
    for (; hit != std::string::npos && work.fits(out.size() + content.size()); hit = t.find(literal, at)) {
      out.append(t, at, hit - at).append(content);
      at = hit + literal.size();
    }
    t = out.append(t, at);
  });
}
Result<std::unique_ptr<Normalizer>> make_regex_replace(std::string_view pattern, std::string content) {
  ISO_TRY(auto regex, Regex::compile(pattern));
  return function([regex = std::shared_ptr<Regex>(std::move(regex)), content = std::move(content)](std::string& t, RegexWork& work) {
    if (t.empty()) return;  // no match in the reference, whatever the pattern
    std::string out;
    size_t at = 0;
    regex->for_each(t, work, [&](Span s) {
      if (!work.fits(out.size() + content.size())) return;
      out.append(t, at, s.begin - at).append(content);
      at = s.end;
    });
    t = out.append(t, at);
  });
}
std::unique_ptr<Normalizer> make_bert_normalizer(BertOptions options) { return std::make_unique<Bert>(options); }

Result<std::unique_ptr<Normalizer>> make_precompiled(std::string charsmap) {
  const auto bad = [](const char* what) { return fail(Code::data_loss, what, "precompiled_charsmap", "the file is damaged; fetch it again"); };
  if (charsmap.size() < 4) return bad("the normalizer's character map is shorter than its header");
  size_t bytes = 0;
  for (size_t i = 4; i-- > 0;) bytes = bytes << 8 | uint8_t(charsmap[i]);
  if (bytes % 4 != 0 || bytes > charsmap.size() - 4) return bad("the normalizer's character map is shorter than its header says");
  return std::make_unique<Precompiled>(std::move(charsmap), bytes / 4);
}

std::unique_ptr<Normalizer> make_sequence(std::vector<std::unique_ptr<Normalizer>> parts) {
  return function([parts = std::make_shared<std::vector<std::unique_ptr<Normalizer>>>(std::move(parts))](std::string& t, RegexWork& work) {
    for (const auto& p : *parts) p->apply(t, work);
  });
}

}  // namespace isotope::text
