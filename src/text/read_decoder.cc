#include "text/tokenizer_json.h"

#include "text/unicode.h"

namespace isotope::text {
namespace {

using Kind = DecoderStep::Kind;
constexpr int kMaxDepth = 16;
constexpr size_t kMaxSteps = 64;

Result<DecoderStep> replace(const Fields& f) {
  ISO_TRY(const Json pattern, f.get("pattern"));
  ISO_TRY(const Fields p, Fields::of(pattern, f.where() + ", pattern"));
  ISO_TRY(const std::string_view content, f.string("content"));
  DecoderStep step{.kind = Kind::replace, .content = std::string(content)};
  if (p.find("Regex")) {
    ISO_TRY(const std::string_view regex, p.string("Regex"));
    ISO_TRY(auto compiled, Regex::compile(regex));
    step.regex = std::move(compiled);
    return step;
  }
  ISO_TRY(const std::string_view literal, p.string("String"));
  step.literal = literal;
  return step;
}

Result<DecoderStep> metaspace(const Fields& f) {
  ISO_TRY(const std::string_view replacement, f.string("replacement"));
  if (count_chars(replacement) != 1) return f.error("the replacement must be one character");
  ISO_TRY(const std::string_view scheme, f.string("prepend_scheme", "always"));
  ISO_TRY(const bool prefix, f.boolean("add_prefix_space", true));
  return DecoderStep{.kind = Kind::metaspace, .content = std::string(replacement), .flag = scheme != "never" && prefix};
}

Result<DecoderStep> strip(const Fields& f) {
  ISO_TRY(const std::string_view content, f.string("content"));
  ISO_TRY(const int64_t start, f.integer("start"));
  ISO_TRY(const int64_t stop, f.integer("stop"));
  if (count_chars(content) != 1 || start < 0 || stop < 0) return f.error("content must be one character, start and stop may not be negative");
  return DecoderStep{.kind = Kind::strip, .content = std::string(content), .start = size_t(start), .stop = size_t(stop)};
}

Result<DecoderStep> word_piece(const Fields& f) {
  ISO_TRY(const std::string_view prefix, f.string("prefix"));
  ISO_TRY(const bool cleanup, f.boolean("cleanup"));
  return DecoderStep{.kind = Kind::word_piece, .content = std::string(prefix), .flag = cleanup};
}

Result<DecoderStep> ctc(const Fields& f) {
  ISO_TRY(const std::string_view pad, f.string("pad_token"));
  ISO_TRY(const std::string_view delimiter, f.string("word_delimiter_token"));
  ISO_TRY(const bool cleanup, f.boolean("cleanup"));
  return DecoderStep{.kind = Kind::ctc, .content = std::string(pad), .literal = std::string(delimiter), .flag = cleanup};
}

Result<DecoderStep> bpe(const Fields& f) {
  ISO_TRY(const std::string_view suffix, f.string("suffix"));
  return DecoderStep{.kind = Kind::bpe, .content = std::string(suffix)};
}

struct Row {
  std::string_view type;
  Result<DecoderStep> (*make)(const Fields&);
};
constexpr Row kRows[] = {
    {"ByteLevel", [](const Fields&) -> Result<DecoderStep> { return DecoderStep{.kind = Kind::byte_level}; }},
    {"ByteFallback", [](const Fields&) -> Result<DecoderStep> { return DecoderStep{.kind = Kind::byte_fallback}; }},
    {"Fuse", [](const Fields&) -> Result<DecoderStep> { return DecoderStep{.kind = Kind::fuse}; }},
    {"Replace", replace}, {"Metaspace", metaspace}, {"Strip", strip}, {"WordPiece", word_piece}, {"CTC", ctc}, {"BPEDecoder", bpe},
};

}  // namespace

Result<std::vector<DecoderStep>> read_decoder(Json value, int depth) {
  std::vector<DecoderStep> out;
  if (value.is_null()) return out;
  ISO_TRY(const Fields plain, Fields::of(value, "decoder"));
  ISO_TRY(const std::string_view type, plain.string("type"));
  if (depth > kMaxDepth) return plain.error("sequences are nested too deep");
  ISO_TRY(const Fields f, Fields::of(value, "decoder '" + std::string(type) + "'"));
  if (type == "Sequence") {
    ISO_TRY(const auto list, f.array("decoders"));
    for (const Json e : list) {
      ISO_TRY(auto part, read_decoder(e, depth + 1));
      std::move(part.begin(), part.end(), std::back_inserter(out));
    }
    if (out.size() > kMaxSteps) return f.error("the sequence is too long");
    if (out.empty()) out.push_back({.kind = Kind::fuse});  // an empty sequence joins tokens without spaces
    return out;
  }
  for (const Row& row : kRows) {
    if (row.type != type) continue;
    ISO_TRY(auto step, row.make(f));
    out.push_back(std::move(step));
    return out;
  }
  return plain.error("the decoder '" + std::string(type) + "' is not supported");
}

}  // namespace isotope::text
