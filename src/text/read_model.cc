#include "text/tokenizer_json.h"

#include <charconv>

#include "text/bpe.h"
#include "text/unigram.h"
#include "text/word_piece.h"

namespace isotope::text {
namespace {

Result<void> read_vocab(const Fields& f, Vocab& vocab) {
  ISO_TRY(const Json value, f.get("vocab"));
  simdjson::dom::object object;
  if (value.get(object)) return f.error("the field 'vocab' must be an object");
  size_t bytes = 0;
  for (const auto field : object) bytes += field.key.size();
  vocab.reserve(object.size(), bytes);
  for (const auto field : object) {
    int64_t id = 0;
    if (field.value.get(id)) return f.error("the id of '" + std::string(field.key.substr(0, 40)) + "' must be an integer");
    ISO_CHECK_OK(vocab.add(field.key, id));
  }
  return {};
}

/// ["a", "b"] or "a b".
Result<std::pair<std::string_view, std::string_view>> read_merge(const Fields& f, Json e, size_t index) {
  std::string_view left, right, line;
  simdjson::dom::array pair;
  if (!e.get(pair)) {
    if (pair.size() == 2 && !pair.at(0).get(left) && !pair.at(1).get(right)) return std::pair{left, right};
  } else if (!e.get(line)) {
    const size_t space = line.find(' ');
    if (space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos) return std::pair{line.substr(0, space), line.substr(space + 1)};
  }
  return f.error("merge " + std::to_string(index) + " must be a pair of tokens");
}

Result<void> read_bpe(const Fields& f, Parts& p, bool raw_bytes) {
  BpeOptions o;
  o.byte_level = raw_bytes;
  if (const auto dropout = f.find("dropout")) {
    double d = 0;
    if (dropout->get(d) || d != 0) return f.error("dropout makes encodings random and is not supported");
  }
  ISO_TRY(o.byte_fallback, f.boolean("byte_fallback", false));
  ISO_TRY(o.fuse_unk, f.boolean("fuse_unk", false));
  ISO_TRY(o.ignore_merges, f.boolean("ignore_merges", false));
  ISO_TRY(o.unk_token, f.string("unk_token", ""));
  ISO_TRY(o.continuing_subword_prefix, f.string("continuing_subword_prefix", ""));
  ISO_TRY(o.end_of_word_suffix, f.string("end_of_word_suffix", ""));
  ISO_CHECK_OK(read_vocab(f, *p.vocab));
  ISO_TRY(const auto merges, f.array("merges"));
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  pairs.reserve(merges.size());
  for (const Json e : merges) {
    if (pairs.empty()) {  // a list of lines may start with a version comment
      std::string_view line;
      if (!e.get(line) && line.starts_with("#version")) continue;
    }
    ISO_TRY(const auto pair, read_merge(f, e, pairs.size()));
    pairs.push_back(pair);
  }
  ISO_TRY(p.model, Bpe::create(*p.vocab, std::move(o), pairs.size(), [&](size_t i) { return pairs[i]; }));
  return {};
}

/// The number that the `tokenizers` library reads where `x` is the nearest to what a file says: it takes the digits for an integer and multiplies or divides by a
/// power of ten, each rounded, which is up to a unit in the last place off. Of two ways to cut a word with all but equal scores the library takes one by that unit.
double score_as_read(double x) {
  char text[32];
  const auto end = std::to_chars(text, std::end(text), x, std::chars_format::scientific).ptr;
  uint64_t digits = 0;  // 17 at most
  int exponent = 0;
  const char* at = text + (x < 0);
  for (bool fraction = false; at != end && *at != 'e'; at++) {
    if (*at == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + uint64_t(*at - '0');
    exponent -= fraction;
  }
  int written = 0;
  if (at != end) std::from_chars(at + 1 + (at[1] == '+'), end, written);
  exponent += written;
  if (std::abs(exponent) > 22) return x;  // beyond, powers of ten are no doubles themselves
  double power = 1;
  for (int i = 0; i < std::abs(exponent); i++) power *= 10;
  const double value = exponent < 0 ? double(digits) / power : double(digits) * power;
  return x < 0 ? -value : value;
}

Result<void> read_unigram(const Fields& f, Parts& p, bool) {
  ISO_TRY(const auto list, f.array("vocab"));
  Unigram::Options o;
  size_t bytes = 0;
  for (const Json e : list) {
    std::string_view text;
    simdjson::dom::array pair;
    if (e.get(pair) || pair.size() != 2 || pair.at(0).get(text)) return f.error("the vocabulary must be a list of texts and scores");
    bytes += text.size();
  }
  p.vocab->reserve(list.size(), bytes);
  for (const Json e : list) {
    std::string_view text;
    double score = 0;
    simdjson::dom::array pair;
    if (e.get(pair) || pair.at(0).get(text) || pair.at(1).get(score)) return f.error("the score of token " + std::to_string(o.scores.size()) + " must be a number");
    ISO_CHECK_OK(p.vocab->add(text, int64_t(o.scores.size())));
    o.scores.push_back(score_as_read(score));
  }
  if (f.find("unk_id")) {
    ISO_TRY(const int64_t unk, f.integer("unk_id"));
    if (unk < 0 || unk >= int64_t(o.scores.size())) return f.error("unk_id " + std::to_string(unk) + " lies outside the vocabulary");
    o.unk_id = int32_t(unk);
  }
  ISO_TRY(o.byte_fallback, f.boolean("byte_fallback", false));
  ISO_TRY(p.model, Unigram::create(*p.vocab, std::move(o)));
  return {};
}

Result<int32_t> unknown_id(const Fields& f, const Vocab& vocab) {
  ISO_TRY(const std::string_view unk, f.string("unk_token"));
  return vocab.find(unk);
}

Result<void> read_word_piece(const Fields& f, Parts& p, bool) {
  WordPiece::Options o;
  ISO_CHECK_OK(read_vocab(f, *p.vocab));
  ISO_TRY(o.unk_id, unknown_id(f, *p.vocab));
  ISO_TRY(o.continuing_prefix, f.string("continuing_subword_prefix", "##"));
  ISO_TRY(const int64_t longest, f.integer("max_input_chars_per_word", 100));
  if (longest < 0 || longest > 4096) return f.error("max_input_chars_per_word must lie between 0 and 4096");
  o.max_chars = size_t(longest);
  p.model = std::make_unique<WordPiece>(*p.vocab, std::move(o));
  return {};
}

Result<void> read_word_level(const Fields& f, Parts& p, bool) {
  ISO_CHECK_OK(read_vocab(f, *p.vocab));
  ISO_TRY(const int32_t unk, unknown_id(f, *p.vocab));
  p.model = std::make_unique<WordLevel>(*p.vocab, unk);
  return {};
}

struct Row {
  std::string_view type;
  Result<void> (*read)(const Fields&, Parts&, bool raw_bytes);
};
constexpr Row kRows[] = {{"BPE", read_bpe}, {"Unigram", read_unigram}, {"WordPiece", read_word_piece}, {"WordLevel", read_word_level}};

/// Old files do not name the type.
std::string_view implied_type(const Fields& f) {
  if (f.find("merges")) return "BPE";
  const auto vocab = f.find("vocab");
  if (vocab && vocab->is_array()) return "Unigram";
  return f.find("max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

}  // namespace

Result<void> read_model(Json value, Parts& parts, bool raw_bytes) {
  ISO_TRY(const Fields plain, Fields::of(value, "model"));
  ISO_TRY(const std::string_view type, plain.string("type", implied_type(plain)));
  for (const Row& row : kRows) {
    if (row.type != type) continue;
    ISO_TRY(const Fields f, Fields::of(value, "model '" + std::string(type) + "'"));
    return row.read(f, parts, raw_bytes);
  }
  return plain.error("the model '" + std::string(type) + "' is not supported");
}

bool takes_raw_bytes(Json value) {
  const auto f = Fields::of(value, "model");
  if (!f) return false;
  const auto type = f->string("type", implied_type(*f));
  const auto fallback = f->boolean("byte_fallback", false);
  const auto prefix = f->string("continuing_subword_prefix", ""), suffix = f->string("end_of_word_suffix", "");
  return type && *type == "BPE" && fallback && !*fallback && prefix && prefix->empty() && suffix && suffix->empty();
}

}  // namespace isotope::text
