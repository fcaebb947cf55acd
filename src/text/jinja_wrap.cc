// textwrap.wrap as the wordwrap filter calls it: tabs and white space stay, long words may be cut, hyphens may end a line.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <algorithm>
#include <pcre2.h>

#include "text/jinja_pretty.h"
#include "text/jinja_str.h"
#include "text/jinja_unicode.h"

namespace isotope::text::jinja {
namespace {

// One chunk: white space, a dash between words, or a word up to a hyphen it may break behind (Python's textwrap documents the
// rule).
constexpr const char* kChunk =
    R"((?:[\t\n\x0b\x0c\r ]+|(?<=[\w!"'&.,?])-{2,}(?=\w)|[^\t\n\x0b\x0c\r ]+?(?:-(?:(?<=[^\d\W]{2}-)|(?<=[^\d\W]-[^\d\W]-))(?=[^\d\W]-?[^\d\W])|(?=[\t\n\x0b\x0c\r ]|\z)|(?<=[\w!"'&.,?])(?=-{2,}\w))))";
constexpr const char* kSimple = R"([\t\n\x0b\x0c\r ]+|[^\t\n\x0b\x0c\r ]+)";

struct Regex {
  explicit Regex(const char* pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK,
                         &error, &offset, nullptr);
    match = code ? pcre2_match_data_create_from_pattern(code, nullptr) : nullptr;
  }
  ~Regex() { pcre2_match_data_free(match), pcre2_code_free(code); }
  Regex(const Regex&) = delete;
  pcre2_code* code;
  pcre2_match_data* match;
};

struct Chunk { size_t from, to, points; bool blank; };

class Wrapper {
 public:
  Wrapper(Budget& b, std::string_view text, const WrapStyle& style) : b_(b), t_(text), style_(style) {}

  void run(std::string& out) {
    std::vector<Chunk> chunks = split();
    std::reverse(chunks.begin(), chunks.end());
    bool any = false;
    while (!chunks.empty()) {
      b_.charge(1);
      if (chunks.back().blank && any) chunks.pop_back();
      std::vector<Chunk> line;
      int64_t used = 0;
      while (!chunks.empty() && used + static_cast<int64_t>(chunks.back().points) <= style_.width) {
        used += static_cast<int64_t>(chunks.back().points);
        line.push_back(chunks.back()), chunks.pop_back();
      }
      if (!chunks.empty() && static_cast<int64_t>(chunks.back().points) > style_.width)
        long_word(chunks, line, style_.width - used);
      if (!line.empty() && line.back().blank) line.pop_back();
      if (line.empty()) continue;
      if (any) out += style_.newline;
      any = true;
      for (const Chunk& c : line) out += t_.substr(c.from, c.to - c.from);
      b_.check_string(out.size());
    }
  }

 private:
  Chunk make(size_t from, size_t to) const {
    bool blank = true;
    for (size_t p = from; p < to && blank;) blank = is_space(next_point(t_, p));
    return {from, to, count_points(t_.substr(from, to - from)), blank};
  }

  std::vector<Chunk> split() {
    std::vector<Chunk> out;
    const Regex re(style_.break_hyphens ? kChunk : kSimple);
    if (!re.match) raise(Fault::runtime, "out of memory");
    for (size_t p = 0; p < t_.size();) {
      b_.charge(1);
      const int n =
          pcre2_match(re.code, reinterpret_cast<PCRE2_SPTR>(t_.data()), t_.size(), p, PCRE2_NO_UTF_CHECK, re.match, nullptr);
      if (n < 0 && n != PCRE2_ERROR_NOMATCH) raise(Fault::limit, "wordwrap meets a word that is too long");
      const PCRE2_SIZE* at = pcre2_get_ovector_pointer(re.match);
      const size_t from = n < 0 ? t_.size() : at[0], to = n < 0 ? t_.size() : at[1];
      if (from > p) out.push_back(make(p, from));
      if (to > from) out.push_back(make(from, to));
      b_.charge((to - p) / 8);
      p = std::max(to, p + 1);
    }
    return out;
  }

  size_t forward(size_t from, int64_t points) const {
    for (; points > 0 && from < t_.size(); --points) next_point(t_, from);
    return from;
  }

  void long_word(std::vector<Chunk>& chunks, std::vector<Chunk>& line, int64_t room) {
    Chunk& word = chunks.back();
    if (!style_.break_words) {
      if (line.empty()) line.push_back(word), chunks.pop_back();
      return;
    }
    size_t end = std::min(word.to, forward(word.from, room));
    if (style_.break_hyphens) {
      const std::string_view head = t_.substr(word.from, end - word.from);
      const size_t hyphen = head.rfind('-');
      if (hyphen != kNone && hyphen > 0 && head.substr(0, hyphen).find_first_not_of('-') != kNone) end = word.from + hyphen + 1;
    }
    line.push_back(make(word.from, end));  // may be empty: then it, not the space before it, is what the line end drops
    word = make(end, word.to);
    b_.charge(1 + (word.to - end) / 64);
  }

  Budget& b_;
  std::string_view t_;
  const WrapStyle& style_;
};

}  // namespace

Value wrap_words(Budget& b, const Str& s, const WrapStyle& style) {
  if (style.width <= 0) raise(Fault::value, "invalid width " + std::to_string(style.width) + " (must be > 0)");
  std::string out;
  bool first = true;
  for (const Value& line : split_lines(b, s, false)) {
    if (!first) out += style.newline;
    first = false;
    Wrapper(b, str(line).text, style).run(out);
  }
  return make_string(b, std::move(out), !s.content.empty());
}

}  // namespace isotope::text::jinja
