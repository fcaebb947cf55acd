#include "text/tokenizer_gguf.h"

#include <algorithm>

#include "text/bpe.h"
#include "text/gguf_pre.h"
#include "text/unigram.h"
#include "text/word_piece.h"

namespace isotope::text {
namespace {

enum TokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
constexpr std::string_view kSpace = "\xE2\x96\x81";

tl::unexpected<Error> bad(std::string what, std::string key) {
  return fail(Code::data_loss, std::move(what), "GGUF key '" + std::move(key) + "'", "the file is damaged or unusual; convert or fetch it again");
}

int32_t type_of(const VocabSource& v, size_t id) { return id < v.token_types.size() ? v.token_types[id] : int32_t(kNormal); }

Result<void> check(const VocabSource& v) {
  const size_t n = v.tokens.size();
  if (n == 0) return bad("the vocabulary is empty", "tokenizer.ggml.tokens");
  if (!v.token_types.empty() && v.token_types.size() != n)
    return bad(std::to_string(v.token_types.size()) + " token types for " + std::to_string(n) + " tokens", "tokenizer.ggml.token_type");
  if (!v.scores.empty() && v.scores.size() != n) return bad(std::to_string(v.scores.size()) + " scores for " + std::to_string(n) + " tokens", "tokenizer.ggml.scores");
  for (const auto& [name, id] : {std::pair{"bos", v.bos_id}, {"eos", v.eos_id}, {"eot", v.eot_id}, {"unknown", v.unk_id}, {"padding", v.pad_id}})
    if (id < -1 || id >= int64_t(n)) return bad("token id " + std::to_string(id) + " lies outside the vocabulary", "tokenizer.ggml." + std::string(name) + "_token_id");
  return {};
}

/// The text of a token as the published vocabulary spells it.
std::string spelling(const VocabSource& v, size_t id, bool metaspace) {
  std::string text = valid_utf8(v.tokens[id]) ? v.tokens[id] : lossy_utf8(v.tokens[id]);
  if (metaspace && type_of(v, id) == kUserDefined) {  // converters write user-defined "▁▁" with spaces
    std::string out;
    for (const char c : text) c == ' ' ? out += kSpace : out += c;
    text.swap(out);
  }
  return text;
}

Result<void> fill_vocab(Parts& p, const VocabSource& v, bool metaspace) {
  size_t bytes = 0;
  for (const auto& t : v.tokens) bytes += t.size();
  p.vocab->reserve(v.tokens.size(), bytes + bytes / 8);
  p.hidden.resize(v.tokens.size());
  for (size_t id = 0; id < v.tokens.size(); id++) {
    std::string text = spelling(v, id, metaspace);
    ISO_CHECK_OK(p.vocab->add(text, int64_t(id)));
    const int32_t type = type_of(v, id);
    if (type == kControl || type == kUnknown) p.hidden[id] = true;
    if (type == kControl || type == kUserDefined || (type == kUnknown && !text.empty()))
      p.added.push_back({std::move(text), int32_t(id), false, false, false, false, type != kUserDefined});
  }
  return {};
}

void add_template(Parts& p, std::vector<int32_t> before, std::vector<int32_t> after) {
  std::erase(before, -1);
  std::erase(after, -1);
  if (before.empty() && after.empty()) return;
  p.post.push_back({{false, std::move(before)}, {true, {}}, {false, std::move(after)}});
}

Result<void> pre_steps(Parts& p, const GgufPre& row) {
  bool mapped = false;
  for (const std::string_view step : row.steps) {
    if (step == kStepDigits || step == kStepDigitRuns) {
      p.pre_steps.push_back(make_char_split(props::kNumeric, step == kStepDigits ? Behavior::isolated : Behavior::contiguous));
    } else if (step == kStepBytes) {
      p.pre_steps.push_back(make_byte_level(false, false, true));
      mapped = true;
    } else {
      ISO_TRY(auto split, make_split({"", std::string(step)}, Behavior::isolated, false));
      p.pre_steps.push_back(std::move(split));
    }
  }
  if (mapped) p.pre_steps.push_back(nullptr);  // marks that words come in the byte alphabet
  return {};
}

Result<Parts> byte_level(const VocabSource& v) {
  const std::string name = v.gguf_pre.empty() ? "default" : v.gguf_pre;
  const GgufPre* row = find_gguf_pre(name);
  if (!row) {
    return fail(Code::unsupported, "the pre-tokenizer '" + name + "' is unknown", "GGUF key 'tokenizer.ggml.pre'",
                "use the model's Hugging Face directory with its tokenizer.json, or one of: " + gguf_pre_names());
  }
  Parts p;
  ISO_CHECK_OK(fill_vocab(p, v, false));
  if (row->nfc) p.normalizer = make_normal_form(NormalForm::nfc);
  ISO_CHECK_OK(pre_steps(p, *row));
  BpeOptions options{.byte_level = true, .ignore_merges = row->ignore_merges};
  if (!p.pre_steps.empty() && !p.pre_steps.back()) {
    p.pre_steps.pop_back();
    options.byte_level = false;
  }
  for (size_t i = 0; i < v.merges.size(); i++)
    if (v.merges[i].find(' ', 1) == std::string::npos) return bad("merge " + std::to_string(i) + " ('" + v.merges[i].substr(0, 40) + "') is not two tokens", "tokenizer.ggml.merges");
  ISO_TRY(p.model, Bpe::create(*p.vocab, options, v.merges.size(), [&](size_t i) {
    const std::string_view m = v.merges[i];
    const size_t space = m.find(' ', 1);
    return std::pair{m.substr(0, space), m.substr(space + 1)};
  }));
  p.decoder.push_back({.kind = DecoderStep::Kind::byte_level});
  add_template(p, {v.add_bos.value_or(row->adds_bos) ? v.bos_id : -1}, {v.add_eos.value_or(false) ? v.eos_id : -1});
  return p;
}

Result<Parts> sentencepiece(const VocabSource& v) {
  if (v.scores.empty()) return bad("a SentencePiece vocabulary needs scores", "tokenizer.ggml.scores");
  Parts p;
  ISO_CHECK_OK(fill_vocab(p, v, true));
  const bool prefix = v.add_space_prefix.value_or(true);
  std::vector<std::unique_ptr<Normalizer>> steps;
  if (prefix) steps.push_back(make_prepend(std::string(kSpace)));
  steps.push_back(make_replace(" ", std::string(kSpace)));
  p.normalizer = make_sequence(std::move(steps));
  ScoredBpe::Options options{v.scores, {}, {}, v.unk_id};
  options.mergeable.resize(v.tokens.size());
  options.first.resize(v.tokens.size());
  for (size_t id = 0; id < v.tokens.size(); id++) {
    const int32_t type = type_of(v, id);
    options.mergeable[id] = type == kNormal || type == kUserDefined || type == kUnused;
    options.first[id] = type == kUserDefined;
  }
  p.model = ScoredBpe::create(*p.vocab, std::move(options));
  using Kind = DecoderStep::Kind;
  p.decoder = {{.kind = Kind::replace, .content = " ", .literal = std::string(kSpace)}, {.kind = Kind::byte_fallback}, {.kind = Kind::fuse}};
  if (prefix) p.decoder.push_back({.kind = Kind::strip, .content = " ", .start = 1});
  add_template(p, {v.add_bos.value_or(true) ? v.bos_id : -1}, {v.add_eos.value_or(false) ? v.eos_id : -1});
  return p;
}

Result<Parts> unigram(const VocabSource& v) {
  if (v.scores.empty()) return bad("a Unigram vocabulary needs scores", "tokenizer.ggml.scores");
  Parts p;
  ISO_CHECK_OK(fill_vocab(p, v, true));
  std::vector<std::unique_ptr<Normalizer>> steps;
  if (!v.precompiled_charsmap.empty()) {
    ISO_TRY(auto map, make_precompiled(v.precompiled_charsmap));
    steps.push_back(std::move(map));
  }
  if (v.remove_extra_whitespaces.value_or(true)) {
    steps.push_back(make_strip(true, true));
    ISO_TRY(auto runs, make_regex_replace(" {2,}", " "));
    steps.push_back(std::move(runs));
  }
  p.normalizer = make_sequence(std::move(steps));
  const bool prefix = v.add_space_prefix.value_or(true);
  p.pre_steps.push_back(make_metaspace(std::string(kSpace), prefix ? Prepend::always : Prepend::never, true));
  std::vector<bool> usable(v.tokens.size());
  bool bytes = false;
  for (size_t id = 0; id < v.tokens.size(); id++) {
    const int32_t type = type_of(v, id);
    usable[id] = type == kNormal || type == kUserDefined || type == kUnused;
    bytes |= type == kByte;
  }
  const std::vector<double> scores(v.scores.begin(), v.scores.end());
  ISO_TRY(p.model, Unigram::create(*p.vocab, {scores, std::move(usable), v.unk_id, bytes}));
  using Kind = DecoderStep::Kind;
  if (bytes) p.decoder.push_back({.kind = Kind::byte_fallback});
  p.decoder.push_back({.kind = Kind::metaspace, .content = std::string(kSpace), .flag = prefix});
  add_template(p, {v.add_bos.value_or(false) ? v.bos_id : -1}, {v.add_eos.value_or(true) ? v.eos_id : -1});
  return p;
}

/// GGUF spells WordPiece vocabularies the SentencePiece way: "▁word" starts a word, "ing" continues one.
Result<Parts> word_piece(const VocabSource& v) {
  Parts p;
  p.hidden.resize(v.tokens.size());
  int32_t cls = v.bos_id, sep = v.eos_id, unk = v.unk_id;
  for (size_t id = 0; id < v.tokens.size(); id++) {
    std::string text = spelling(v, id, false);
    const int32_t type = type_of(v, id);
    const bool control = type == kControl || type == kUnknown;
    if (text.starts_with(kSpace)) {
      text.erase(0, kSpace.size());
    } else if (!control && !(text.starts_with('[') && text.ends_with(']'))) {
      text.insert(0, "##");
    }
    if (text == "[CLS]" && cls < 0) cls = int32_t(id);
    if (text == "[SEP]") sep = int32_t(id);
    if (text == "[UNK]" && unk < 0) unk = int32_t(id);
    ISO_CHECK_OK(p.vocab->add(text, int64_t(id)));
    if (control) {
      p.hidden[id] = true;
      p.added.push_back({std::move(text), int32_t(id), false, false, false, false, true});
    }
  }
  if (unk < 0) return bad("a WordPiece vocabulary needs an unknown token", "tokenizer.ggml.unknown_token_id");
  const bool cased = p.vocab->find("The") >= 0;  // no key says so; an uncased vocabulary has no capitals
  p.normalizer = make_bert_normalizer({.clean_text = true, .handle_chinese_chars = true, .strip_accents = !cased, .lowercase = !cased});
  p.pre_steps.push_back(make_bert_split());
  p.model = std::make_unique<WordPiece>(*p.vocab, WordPiece::Options{unk, "##", 100});
  p.decoder.push_back({.kind = DecoderStep::Kind::word_piece, .content = "##", .flag = true});
  add_template(p, {v.add_bos.value_or(true) ? cls : -1}, {v.add_eos.value_or(true) ? sep : -1});
  return p;
}

struct ModelRow {
  std::string_view name;
  Result<Parts> (*make)(const VocabSource&);
};
constexpr ModelRow kModels[] = {{"gpt2", byte_level}, {"llama", sentencepiece}, {"t5", unigram}, {"bert", word_piece}};

constexpr std::string_view kEndTokens[] = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>",
                                           "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
                                           "<｜end▁of▁sentence｜>", "[e~["};

}  // namespace

void collect_end_tokens(Parts& p, const VocabSource& v) {
  const auto add = [&](int32_t id) {
    if (id >= 0 && std::find(p.eog_ids.begin(), p.eog_ids.end(), id) == p.eog_ids.end()) p.eog_ids.push_back(id);
  };
  add(p.eos_id);
  add(v.eot_id);
  const auto special = [&](std::string_view text) {
    for (const AddedToken& t : p.added)
      if (t.special && t.content == text) return t.id;
    return -1;
  };
  // In the harmony format <|end|> ends a message, not the turn; <|return|> and <|call|> do.
  const bool harmony = special("<|call|>") >= 0 && (special("<|return|>") >= 0 || special("<|flush|>") >= 0);
  for (const std::string_view name : kEndTokens)
    if (!(harmony && name == "<|end|>")) add(special(name));
}

Result<Parts> parts_from_gguf(const VocabSource& v) {
  ISO_CHECK_OK(check(v));
  for (const ModelRow& row : kModels) {
    if (row.name != v.gguf_model) continue;
    ISO_TRY(Parts p, row.make(v));
    p.bos_id = v.bos_id;
    p.eos_id = v.eos_id;
    return p;
  }
  std::string known;
  for (const ModelRow& row : kModels) known.append(known.empty() ? "" : ", ").append(row.name);
  return fail(Code::unsupported, "the tokenizer model '" + v.gguf_model + "' is unknown", "GGUF key 'tokenizer.ggml.model'",
              "use the model's Hugging Face directory with its tokenizer.json; known: " + known);
}

}  // namespace isotope::text
