#include <algorithm>

#include "text/tokenizer_json.h"

#include "text/unicode.h"

namespace isotope::text {
namespace {

using Made = Result<std::unique_ptr<PreTokenizer>>;
constexpr int kMaxDepth = 16;
constexpr size_t kMaxSteps = 64;

/// All steps in a row; sequences inside sequences are flat.
Result<void> flatten(Json value, int depth, std::vector<Fields>& out) {
  ISO_TRY(Fields plain, Fields::of(value, "pre-tokenizer"));
  ISO_TRY(const std::string_view type, plain.string("type"));
  if (depth > kMaxDepth) return plain.error("sequences are nested too deep");
  ISO_TRY(Fields f, Fields::of(value, "pre-tokenizer '" + std::string(type) + "'"));
  if (type != "Sequence") return out.push_back(std::move(f)), Result<void>{};
  ISO_TRY(const auto list, f.array("pretokenizers"));
  for (const Json e : list) ISO_CHECK_OK(flatten(e, depth + 1, out));
  if (out.size() > kMaxSteps) return f.error("the sequence is too long");
  return {};
}

Result<Behavior> behavior(const Fields& f, std::optional<std::string_view> fallback = {}) {
  constexpr std::pair<std::string_view, Behavior> kNames[] = {{"Removed", Behavior::removed}, {"Isolated", Behavior::isolated}, {"Contiguous", Behavior::contiguous},
                                                              {"MergedWithPrevious", Behavior::merged_with_previous}, {"MergedWithNext", Behavior::merged_with_next}};
  ISO_TRY(const std::string_view name, f.string("behavior", fallback));
  for (const auto& [n, b] : kNames)
    if (n == name) return b;
  return f.error("the behavior '" + std::string(name) + "' is not supported");
}

Made split(const Fields& f) {
  ISO_TRY(const Json pattern, f.get("pattern"));
  ISO_TRY(const Fields p, Fields::of(pattern, f.where() + ", pattern"));
  SplitPattern what;
  const bool regex = p.find("Regex").has_value();
  ISO_TRY(const std::string_view text, p.string(regex ? "Regex" : "String"));
  (regex ? what.regex : what.literal) = text;
  ISO_TRY(const Behavior b, behavior(f));
  ISO_TRY(const bool invert, f.boolean("invert", false));
  if (regex && text.empty()) return f.error("the regular expression is empty");
  return make_split(what, b, invert);
}

Made metaspace(const Fields& f) {
  ISO_TRY(const std::string_view replacement, f.string("replacement"));
  if (count_chars(replacement) != 1) return f.error("the replacement must be one character");
  ISO_TRY(const std::string_view scheme, f.string("prepend_scheme", "always"));
  ISO_TRY(const bool split, f.boolean("split", true));
  ISO_TRY(const bool prefix, f.boolean("add_prefix_space", true));
  Prepend prepend = Prepend::always;
  if (scheme == "first") {
    prepend = Prepend::first;
  } else if (scheme == "never" || (f.find("add_prefix_space") && !prefix)) {
    prepend = Prepend::never;
  } else if (scheme != "always") {
    return f.error("the prepend_scheme '" + std::string(scheme) + "' is not supported");
  }
  return make_metaspace(std::string(replacement), prepend, split);
}

Made delimiter(const Fields& f) {
  ISO_TRY(const std::string_view text, f.string("delimiter"));
  if (count_chars(text) != 1) return f.error("the delimiter must be one character");
  const char* p = text.data();
  return make_delimiter_split(next_char(p));
}

Made digits(const Fields& f) {
  ISO_TRY(const bool individual, f.boolean("individual_digits", false));
  return make_char_split(props::kNumeric, individual ? Behavior::isolated : Behavior::contiguous);
}

Made punctuation(const Fields& f) {
  ISO_TRY(const Behavior b, behavior(f, "Isolated"));
  return make_char_split(props::kPunct, b);
}

Made fixed_length(const Fields& f) {
  ISO_TRY(const int64_t length, f.integer("length", 5));
  if (length < 1) return f.error("the length must be positive");
  return make_fixed_length(size_t(length));
}

struct Row {
  std::string_view type;
  Made (*make)(const Fields&);
};
constexpr Row kRows[] = {
    {"Split", split},
    {"Metaspace", metaspace},
    {"CharDelimiterSplit", delimiter},
    {"Digits", digits},
    {"Punctuation", punctuation},
    {"FixedLength", fixed_length},
    {"Whitespace", [](const Fields&) -> Made { return make_word_split(); }},
    {"WhitespaceSplit", [](const Fields&) -> Made { return make_char_split(props::kWhite, Behavior::removed); }},
    {"BertPreTokenizer", [](const Fields&) -> Made { return make_bert_split(); }},
    {"UnicodeScripts", [](const Fields&) -> Made { return make_script_split(); }},
};

Made make(const Fields& f, std::string_view type, bool map_bytes) {
  if (type == "ByteLevel") {
    ISO_TRY(const bool prefix, f.boolean("add_prefix_space"));
    ISO_TRY(const bool regex, f.boolean("use_regex", true));
    return make_byte_level(prefix, regex, map_bytes);
  }
  for (const Row& row : kRows)
    if (row.type == type) return row.make(f);
  return f.error("the pre-tokenizer '" + std::string(type) + "' is not supported");
}

}  // namespace

Result<PreSteps> read_pre_tokenizer(Json value, bool model_takes_raw_bytes, bool& raw_bytes) {
  raw_bytes = false;
  PreSteps steps;
  if (value.is_null()) return steps;
  std::vector<Fields> list;
  ISO_CHECK_OK(flatten(value, 0, list));
  std::vector<std::string_view> types;
  for (const Fields& f : list) {
    ISO_TRY(const std::string_view type, f.string("type"));
    types.push_back(type);
  }
  // Mapping twice would map the stand-ins again: only a text that is still as it came may stay raw.
  raw_bytes = model_takes_raw_bytes && !types.empty() && types.back() == "ByteLevel" && std::count(types.begin(), types.end(), "ByteLevel") == 1;
  for (size_t i = 0; i < list.size(); i++) {
    ISO_TRY(auto step, make(list[i], types[i], !raw_bytes));
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace isotope::text
