#include <algorithm>
#include <filesystem>

#include "base/mapped_file.h"
#include "weights/json.h"
#include "weights/vocab_source.h"

namespace isotope::weights {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kMaxTokenizer = uint64_t{256} << 20, kMaxSmallFile = uint64_t{16} << 20;

// A missing file is an empty text.
Result<std::string> optional_file(const fs::path& path, uint64_t limit) {
  std::error_code ec;
  if (!fs::exists(path, ec)) return std::string();
  return base::read_text_file(path.string(), limit);
}

/// tokenizer_config.json: "chat_template" is a text, or a list of {name, template}.
void templates_from_config(const json& config, VocabSource& v) {
  const auto it = config.find("chat_template");
  if (it == config.end()) return;
  if (it->is_string()) v.chat_template = it->get<std::string>();
  if (!it->is_array()) return;
  for (const json& item : *it) {
    if (!item.is_object() || !item.contains("name") || !item.contains("template") || !item["name"].is_string() ||
        !item["template"].is_string())
      continue;
    if (item["name"] == "default")
      v.chat_template = item["template"].get<std::string>();
    else
      v.named_templates.emplace_back(item["name"].get<std::string>(), item["template"].get<std::string>());
  }
}

Result<json> optional_object(const std::string& text, const std::string& path) {
  if (text.empty()) return json::object();
  ISO_TRY(json j, parse_json(text, path));
  if (!j.is_object())
    return fail(Code::data_loss, "the file holds no JSON object", path, "use the file that was published with the model");
  return j;
}

/// Templates in files of their own replace those of tokenizer_config.json: chat_template.jinja, the older chat_template.json,
/// further named ones.
Result<void> template_files(const fs::path& dir, VocabSource& v) {
  ISO_TRY(const std::string in_json, optional_file(dir / "chat_template.json", kMaxSmallFile));
  ISO_TRY(const json tree, optional_object(in_json, (dir / "chat_template.json").string()));
  if (const auto it = tree.find("chat_template"); it != tree.end() && it->is_string()) v.chat_template = it->get<std::string>();
  ISO_TRY(const std::string jinja, optional_file(dir / "chat_template.jinja", kMaxSmallFile));
  if (!jinja.empty()) v.chat_template = jinja;
  std::error_code ec;
  std::vector<fs::path> named;
  for (fs::directory_iterator it(dir / "additional_chat_templates", ec), end; !ec && it != end; it.increment(ec))
    if (it->path().extension() == ".jinja") named.push_back(it->path());
  std::sort(named.begin(), named.end());
  for (const fs::path& p : named) {
    ISO_TRY(std::string text, base::read_text_file(p.string(), kMaxSmallFile));
    const std::string name = p.stem().string();
    std::erase_if(v.named_templates, [&](const auto& t) { return t.first == name; });
    v.named_templates.emplace_back(name, std::move(text));
  }
  return {};
}

// An id, or the first of a list of ids.
int32_t first_id(const json& j, const char* key) {
  auto it = j.find(key);
  if (it == j.end()) return -1;
  const json& v = it->is_array() && !it->empty() ? it->front() : *it;
  return v.is_number_unsigned() && v.get<uint64_t>() <= uint64_t(INT32_MAX) ? int32_t(v.get<uint64_t>()) : -1;
}

std::optional<bool> optional_bool(const json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_boolean() ? std::optional(it->get<bool>()) : std::nullopt;
}

}  // namespace

Result<VocabSource> vocab_from_directory(const std::string& directory, const Metadata& config) {
  const fs::path dir(directory);
  VocabSource v;
  ISO_TRY(v.tokenizer_json, optional_file(dir / "tokenizer.json", kMaxTokenizer));
  ISO_TRY(v.tokenizer_config_json, optional_file(dir / "tokenizer_config.json", kMaxSmallFile));
  ISO_TRY(v.generation_config_json, optional_file(dir / "generation_config.json", kMaxSmallFile));
  ISO_TRY(v.special_tokens_map_json, optional_file(dir / "special_tokens_map.json", kMaxSmallFile));
  ISO_TRY(const json tokenizer, optional_object(v.tokenizer_config_json, (dir / "tokenizer_config.json").string()));
  ISO_TRY(const json generation, optional_object(v.generation_config_json, (dir / "generation_config.json").string()));
  templates_from_config(tokenizer, v);
  ISO_CHECK_OK(template_files(dir, v));
  v.add_bos = optional_bool(tokenizer, "add_bos_token");
  v.add_eos = optional_bool(tokenizer, "add_eos_token");
  // generation_config.json is what generation obeys; config.json (its text part in multi-modal models) is the fallback.
  const json none = json::object(), &root = config.tree() ? *config.tree() : none;
  const json& text = root.contains("text_config") && root["text_config"].is_object() ? root["text_config"] : root;
  struct Row {
    const char* key;
    int32_t VocabSource::*field;
  };
  for (const Row& r : {Row{"bos_token_id", &VocabSource::bos_id}, Row{"eos_token_id", &VocabSource::eos_id},
                       Row{"pad_token_id", &VocabSource::pad_id}})
    for (const json* j : {&generation, &root, &text})
      if (v.*r.field < 0) v.*r.field = first_id(*j, r.key);
  if (text.contains("vocab_size") && text["vocab_size"].is_number_unsigned())
    v.vocab_size = int64_t(std::min<uint64_t>(text["vocab_size"].get<uint64_t>(), INT32_MAX));
  return v;
}

}  // namespace isotope::weights
