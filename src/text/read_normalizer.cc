#include "text/tokenizer_json.h"

#include <algorithm>

namespace isotope::text {
namespace {

using Made = Result<std::unique_ptr<Normalizer>>;
constexpr int kMaxDepth = 4;  // times kMaxSteps at each level
constexpr size_t kMaxSteps = 64;

Result<std::string> base64(std::string_view in, const Fields& f) {
  std::string out;
  out.reserve(in.size() / 4 * 3);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : in) {
    const int v = c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= '0' && c <= '9' ? c - '0' + 52 : c == '+' ? 62 : c == '/' ? 63 : -1;
    if (c == '=') break;
    if (v < 0) return f.error("the character map is not base64");
    bits = bits << 6 | uint32_t(v);
    if ((count += 6) >= 8) out += char(bits >> (count -= 8));
  }
  return out;
}

Made replace(const Fields& f, int) {
  ISO_TRY(const Json pattern, f.get("pattern"));
  ISO_TRY(const Fields p, Fields::of(pattern, f.where() + ", pattern"));
  ISO_TRY(const std::string_view content, f.string("content"));
  if (p.find("Regex")) {
    ISO_TRY(const std::string_view regex, p.string("Regex"));
    return make_regex_replace(regex, std::string(content));
  }
  ISO_TRY(const std::string_view literal, p.string("String"));
  return make_replace(std::string(literal), std::string(content));
}

Made bert(const Fields& f, int) {
  BertOptions o;
  ISO_TRY(o.clean_text, f.boolean("clean_text"));
  ISO_TRY(o.handle_chinese_chars, f.boolean("handle_chinese_chars"));
  ISO_TRY(o.lowercase, f.boolean("lowercase"));
  ISO_TRY(o.strip_accents, f.boolean("strip_accents", o.lowercase));
  return make_bert_normalizer(o);
}

Made sequence(const Fields& f, int depth) {
  ISO_TRY(const auto list, f.array("normalizers"));
  std::vector<std::unique_ptr<Normalizer>> parts;
  for (const Json e : list) {
    ISO_TRY(auto part, read_normalizer(e, depth + 1));
    if (part) parts.push_back(std::move(part));
    if (parts.size() > kMaxSteps) return f.error("the sequence is too long");
  }
  return make_sequence(std::move(parts));
}

Made strip(const Fields& f, int) {
  ISO_TRY(const bool left, f.boolean("strip_left"));
  ISO_TRY(const bool right, f.boolean("strip_right"));
  return make_strip(left, right);
}

Made prepend(const Fields& f, int) {
  ISO_TRY(const std::string_view prefix, f.string("prepend"));
  return make_prepend(std::string(prefix));
}

Made precompiled(const Fields& f, int) {
  ISO_TRY(const std::string_view map, f.string("precompiled_charsmap"));
  ISO_TRY(std::string bytes, base64(map, f));
  return make_precompiled(std::move(bytes));
}

struct Row {
  std::string_view type;
  Made (*make)(const Fields&, int depth);
};
constexpr Row kRows[] = {
    {"NFC", [](const Fields&, int) -> Made { return make_normal_form(NormalForm::nfc); }},
    {"NFD", [](const Fields&, int) -> Made { return make_normal_form(NormalForm::nfd); }},
    {"NFKC", [](const Fields&, int) -> Made { return make_normal_form(NormalForm::nfkc); }},
    {"NFKD", [](const Fields&, int) -> Made { return make_normal_form(NormalForm::nfkd); }},
    {"Lowercase", [](const Fields&, int) -> Made { return make_lowercase(); }},
    {"StripAccents", [](const Fields&, int) -> Made { return make_strip_accents(); }},
    {"Nmt", [](const Fields&, int) -> Made { return make_nmt(); }},
    {"ByteLevel", [](const Fields&, int) -> Made { return make_byte_alphabet(); }},
    {"Strip", strip}, {"Replace", replace}, {"Prepend", prepend}, {"Precompiled", precompiled}, {"BertNormalizer", bert}, {"Sequence", sequence},
};

}  // namespace

Result<std::unique_ptr<Normalizer>> read_normalizer(Json value, int depth) {
  if (value.is_null()) return nullptr;
  ISO_TRY(const Fields plain, Fields::of(value, "normalizer"));
  ISO_TRY(const std::string_view type, plain.string("type"));
  if (depth > kMaxDepth) return plain.error("sequences are nested too deep");
  for (const Row& row : kRows) {
    if (row.type != type) continue;
    ISO_TRY(const Fields f, Fields::of(value, "normalizer '" + std::string(type) + "'"));
    return row.make(f, depth);
  }
  return plain.error("the normalizer '" + std::string(type) + "' is not supported");
}

}  // namespace isotope::text
