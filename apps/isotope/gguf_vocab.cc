#include "gguf_vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

#include "text/fast_split.h"
#include "text/gguf_pre.h"
#include "text/tokenizer.h"
#include "weights/json.h"

namespace isotope::app {
namespace {

using nlohmann::json;
using weights::GgufValues;

constexpr const char* kFile = "tokenizer.json";
constexpr const char* kOther = "use llama.cpp's converter for this model, then quantize its file";

enum TokenType : int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct Vocab {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  std::unordered_map<std::string, int32_t> ids;

  Result<void> put(const std::string& text, int64_t id, int32_t type) {
    if (id < 0 || size_t(id) >= tokens.size())
      return fail(Code::data_loss, fmt::format("token {} has id {}, the embedding {} rows", weights::quote_name(text), id, tokens.size()), kFile,
                  "use the tokenizer that was published with the model");
    tokens[size_t(id)] = text, types[size_t(id)] = type;
    ids[text] = int32_t(id);
    return {};
  }
};

bool is_byte(std::string_view t) { return t.size() == 6 && t.starts_with("<0x") && t.ends_with('>'); }

bool flag(const json& o, const char* key) {
  const auto it = o.find(key);
  return it != o.end() && it->is_boolean() && it->get<bool>();
}
std::string type_of(const json& o) { return o.is_object() && o.contains("type") && o["type"].is_string() ? o["type"].get<std::string>() : ""; }

Result<Vocab> read_vocab(const json& root, int64_t rows) {
  Vocab v;
  v.tokens.resize(size_t(rows)), v.types.assign(size_t(rows), kUnused);
  for (size_t i = 0; i < v.tokens.size(); ++i) v.tokens[i] = fmt::format("[PAD{}]", i);
  const json& model = root["model"];
  const std::string unknown = model.contains("unk_token") && model["unk_token"].is_string() ? model["unk_token"].get<std::string>() : "";
  for (const auto& [text, id] : model["vocab"].items()) {
    if (!id.is_number_integer())
      return fail(Code::data_loss, "an id in the vocabulary is no integer", kFile, "use the tokenizer that was published with the model");
    ISO_CHECK_OK(v.put(text, id.get<int64_t>(), is_byte(text) && flag(model, "byte_fallback") ? kByte : text == unknown ? kUnknown : kNormal));
  }
  if (const auto added = root.find("added_tokens"); added != root.end() && added->is_array())
    for (const json& t : *added)
      if (t.is_object() && t.contains("content") && t["content"].is_string() && t.contains("id") && t["id"].is_number_integer()) {
        const std::string text = t["content"];
        ISO_CHECK_OK(v.put(text, t["id"].get<int64_t>(),
                           text == unknown && flag(model, "byte_fallback") ? kUnknown
                           : flag(t, "special")                            ? kControl
                                                                           : kUserDefined));
      }
  return v;
}

/// {left, right} of each merge, in order.
Result<std::vector<std::pair<std::string, std::string>>> read_merges(const json& model) {
  std::vector<std::pair<std::string, std::string>> out;
  if (!model.contains("merges") || !model["merges"].is_array()) return out;
  for (const json& m : model["merges"]) {
    if (m.is_array() && m.size() == 2 && m[0].is_string() && m[1].is_string()) {
      out.emplace_back(m[0], m[1]);
      continue;
    }
    const std::string text = m.is_string() ? m.get<std::string>() : "";
    const size_t space = text.find(' ', 1);
    if (space == text.npos) return fail(Code::data_loss, "a merge is no pair", kFile, "use the tokenizer that was published with the model");
    out.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return out;
}

/// The steps of a pre-tokenizer in the words of text/gguf_pre.h; nothing when it has others.
bool read_steps(const json& p, std::vector<std::string>& out) {
  const std::string type = type_of(p);
  if (type == "Sequence" && p.contains("pretokenizers") && p["pretokenizers"].is_array())
    return std::all_of(p["pretokenizers"].begin(), p["pretokenizers"].end(), [&](const json& step) { return read_steps(step, out); });
  if (type == "ByteLevel") {
    if (!p.contains("use_regex") || flag(p, "use_regex")) out.emplace_back(text::patterns::kGpt2);
    return !flag(p, "add_prefix_space");
  }
  if (type == "Digits") return flag(p, "individual_digits") && (out.emplace_back(text::kStepDigits), true);
  if (type != "Split" || !p.contains("pattern") || !p["pattern"].is_object() || !p["pattern"].contains("Regex")) return false;
  out.push_back(p["pattern"]["Regex"]);
  return true;
}

bool has_nfc(const json& n) {
  if (type_of(n) == "NFC") return true;
  return type_of(n) == "Sequence" && n.contains("normalizers") && std::any_of(n["normalizers"].begin(), n["normalizers"].end(), has_nfc);
}

// One name for each rule: the ones that llama.cpp has known longest.
constexpr const char* kPres[] = {"gpt-2",          "smollm", "llama-bpe",  "dbrx",    "glm4",   "qwen2",       "stablelm2",
                                 "qwen35",         "gpt-4o", "tekken",     "kimi-k2", "falcon", "deepseek-v3", "deepseek-llm",
                                 "deepseek-coder", "olmo",   "seed-coder", "bloom",   "viking"};

Result<std::string> find_pre(const json& root, const std::string& asked) {
  if (!asked.empty()) {
    if (text::find_gguf_pre(asked)) return asked;
    return fail(Code::invalid_argument, "'" + asked + "' is not known", "--pre", "known: " + text::gguf_pre_names());
  }
  std::vector<std::string> steps;
  const json& p = root.contains("pre_tokenizer") ? root["pre_tokenizer"] : json();
  if (read_steps(p, steps)) {
    const bool nfc = root.contains("normalizer") && has_nfc(root["normalizer"]), ignore = flag(root["model"], "ignore_merges");
    for (const bool exact : {true, false})
      for (const char* name : kPres) {
        const text::GgufPre* row = text::find_gguf_pre(name);
        if (row && std::equal(steps.begin(), steps.end(), row->steps.begin(), row->steps.end()) && row->ignore_merges == ignore &&
            (!exact || row->nfc == nfc))
          return std::string(name);
      }
  }
  return fail(Code::unsupported, "no name in GGUF files is known for this pre-tokenizer", kFile,
              "name one that cuts texts alike with --pre; known: " + text::gguf_pre_names());
}

void put_bpe(GgufValues& to, const std::vector<std::pair<std::string, std::string>>& merges, const std::string& pre) {
  std::vector<std::string> joined;
  for (const auto& [a, b] : merges) joined.push_back(a + " " + b);
  to.put("tokenizer.ggml.model", "gpt2");
  to.put("tokenizer.ggml.pre", pre);
  to.put("tokenizer.ggml.merges", std::span<const std::string>(joined));
}

/// SentencePiece's BPE joins the pair whose result has the highest score: minus the rank of the merge that makes it.
void put_sentencepiece(GgufValues& to, const Vocab& v, const std::vector<std::pair<std::string, std::string>>& merges, const json& normalizer) {
  std::vector<float> scores(v.tokens.size(), 0.0f);
  for (size_t i = 0; i < scores.size(); ++i)
    if (v.types[i] != kControl && v.types[i] != kByte && v.types[i] != kUnknown) scores[i] = -float(merges.size() + i);
  for (size_t rank = merges.size(); rank-- > 0;)
    if (const auto it = v.ids.find(merges[rank].first + merges[rank].second); it != v.ids.end()) scores[size_t(it->second)] = -float(rank);
  to.put("tokenizer.ggml.model", "llama");
  to.put("tokenizer.ggml.pre", "default");
  to.put("tokenizer.ggml.scores", std::span<const float>(scores));
  const auto prepends = [](const json& n) { return type_of(n) == "Prepend"; };
  const bool prefix = prepends(normalizer) || (type_of(normalizer) == "Sequence" && normalizer.contains("normalizers") &&
                                               std::any_of(normalizer["normalizers"].begin(), normalizer["normalizers"].end(), prepends));
  to.put("tokenizer.ggml.add_space_prefix", prefix);
}

}  // namespace

Result<void> put_vocab(GgufValues& to, const VocabSource& source, int64_t rows, const std::string& pre) {
  if (source.tokenizer_json.empty())
    return fail(Code::not_found, "the folder has no tokenizer.json", {}, "add the one that was published with the model");
  ISO_TRY(const json root, weights::parse_json(source.tokenizer_json, kFile));
  if (!root.is_object() || !root.contains("model") || !root["model"].is_object() || !root["model"].contains("vocab") ||
      !root["model"]["vocab"].is_object() || (type_of(root["model"]) != "BPE" && !root["model"].contains("merges")))
    return fail(Code::unsupported,
                fmt::format("a tokenizer of type '{}'", root.is_object() && root.contains("model") ? type_of(root["model"]) : ""), kFile, kOther);
  ISO_TRY(const Vocab v, read_vocab(root, rows));
  ISO_TRY(const auto merges, read_merges(root["model"]));
  if (flag(root["model"], "byte_fallback")) {
    put_sentencepiece(to, v, merges, root.contains("normalizer") ? root["normalizer"] : json());
  } else {
    ISO_TRY(const std::string name, find_pre(root, pre));
    put_bpe(to, merges, name);
  }
  to.put("tokenizer.ggml.tokens", std::span<const std::string>(v.tokens));
  to.put("tokenizer.ggml.token_type", std::span<const int32_t>(v.types));
  const auto id = [&](const char* key, int32_t value) {
    if (value >= 0 && value < rows) to.put(key, uint32_t(value));
  };
  id("tokenizer.ggml.bos_token_id", source.bos_id);
  id("tokenizer.ggml.eos_token_id", source.eos_id);
  id("tokenizer.ggml.padding_token_id", source.pad_id);
  for (size_t i = 0; i < v.types.size(); ++i)
    if (v.types[i] == kUnknown) to.put("tokenizer.ggml.unknown_token_id", uint32_t(i));
  ISO_TRY(const auto tokenizer, text::Tokenizer::create(source));
  to.put("tokenizer.ggml.add_bos_token", tokenizer->adds_bos());
  if (!source.chat_template.empty()) to.put("tokenizer.chat_template", source.chat_template);
  std::vector<std::string> names;
  for (const auto& [name, text] : source.named_templates) {
    to.put("tokenizer.chat_template." + name, text);
    names.push_back(name);
  }
  if (!names.empty()) to.put("tokenizer.chat_templates", std::span<const std::string>(names));
  return {};
}

}  // namespace isotope::app
