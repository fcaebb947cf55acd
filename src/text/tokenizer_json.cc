#include "text/tokenizer_json.h"

#include <algorithm>
#include <unordered_map>

namespace isotope::text {
namespace {

constexpr size_t kLongestAddedToken = 512;

/// Gives ids to added tokens as the reference does on loading: the model's own id if it has the text, else the next free one. Ids in the file are not used.
class AddedTokenList {
 public:
  explicit AddedTokenList(Parts& parts) : parts_(parts) {}

  Result<void> add(AddedToken token) {
    if (token.content.empty()) return {};
    if (token.content.size() > kLongestAddedToken)
      return fail(Code::unsupported, "the added token '" + token.content.substr(0, 40) + "…' is longer than 512 bytes", "tokenizer.json, added_tokens", "shorten the token");
    const auto [it, fresh] = index_.emplace(token.content, parts_.added.size());
    if (!fresh) {
      AddedToken& known = parts_.added[it->second];
      token.id = known.id;
      token.special |= known.special;
      known = std::move(token);
      return {};
    }
    token.id = parts_.vocab->find(token.content);
    if (token.id < 0) {
      const int64_t size = int64_t(parts_.vocab->count());
      const int64_t id = parts_.added.empty() || highest_ < size ? size : highest_ + 1;
      ISO_CHECK_OK(parts_.extra->add(token.content, id));
      token.id = int32_t(id);
    }
    highest_ = std::max<int64_t>(highest_, token.id);
    parts_.added.push_back(std::move(token));
    return {};
  }
  AddedToken* find(const std::string& content) {
    const auto it = index_.find(content);
    return it == index_.end() ? nullptr : &parts_.added[it->second];
  }

 private:
  Parts& parts_;
  std::unordered_map<std::string, size_t> index_;
  int64_t highest_ = -1;
};

Result<AddedToken> added_token(Json value) {
  ISO_TRY(const Fields f, Fields::of(value, "added_tokens"));
  AddedToken t;
  ISO_TRY(t.content, f.string("content"));
  ISO_TRY(t.single_word, f.boolean("single_word", false));
  ISO_TRY(t.lstrip, f.boolean("lstrip", false));
  ISO_TRY(t.rstrip, f.boolean("rstrip", false));
  ISO_TRY(t.special, f.boolean("special", false));
  ISO_TRY(t.normalized, f.boolean("normalized", !t.special));
  return t;
}

/// A token in tokenizer_config.json: its text, or an object with its flags.
std::optional<AddedToken> config_token(Json value) {
  AddedToken t{.special = true};
  std::string_view text;
  if (!value.get(text)) return t.content = text, t;
  const auto f = Fields::of(value, "");
  if (!f) return std::nullopt;
  const auto content = f->string("content");
  if (!content) return std::nullopt;
  t.content = *content;
  t.single_word = f->boolean("single_word", false).value_or(false);
  t.lstrip = f->boolean("lstrip", false).value_or(false);
  t.rstrip = f->boolean("rstrip", false).value_or(false);
  return t;
}

/// What tokenizer_config.json and special_tokens_map.json say.
struct Config {
  std::unordered_map<std::string, AddedToken> named;
  std::vector<AddedToken> additional;
  std::optional<bool> add_bos, add_eos;
};

constexpr const char* kNames[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

void read_config(const std::string& text, Config& c) {
  simdjson::dom::parser parser;
  Json root;
  if (text.empty() || parser.parse(text).get(root)) return;  // the weights layer reports unreadable side files
  const auto f = Fields::of(root, "");
  if (!f) return;
  for (const char* name : kNames)
    if (const auto value = f->find(name))
      if (auto t = config_token(*value); t && !t->content.empty()) c.named.emplace(name, std::move(*t));
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    if (const auto list = f->find(key); list && list->is_array())
      for (const Json e : list->get_array())
        if (auto t = config_token(e); t && !t->content.empty()) c.additional.push_back(std::move(*t));
  }
  bool flag = false;
  if (const auto v = f->find("add_bos_token"); v && !v->get(flag)) c.add_bos = flag;
  if (const auto v = f->find("add_eos_token"); v && !v->get(flag)) c.add_eos = flag;
}

Result<void> add_config_tokens(AddedTokenList& list, const Config& c) {
  std::vector<AddedToken> wanted;
  for (const char* name : kNames)
    if (const auto it = c.named.find(name); it != c.named.end()) wanted.push_back(it->second);
  wanted.insert(wanted.end(), c.additional.begin(), c.additional.end());
  for (AddedToken& t : wanted) {
    if (AddedToken* known = list.find(t.content)) {
      known->special = true;
    } else {
      ISO_CHECK_OK(list.add(std::move(t)));
    }
  }
  return {};
}

int32_t named_id(const Parts& p, const Config& c, const char* name, int32_t fallback) {
  const auto it = c.named.find(name);
  if (it == c.named.end()) return fallback;
  const int32_t id = p.extra->find(it->second.content);
  return id >= 0 ? id : p.vocab->find(it->second.content);
}

/// add_bos_token or add_eos_token in the configuration replace the file's post-processor, as transformers does.
void override_post(Parts& p, const Config& c) {
  if (!c.add_bos && !c.add_eos) return;
  std::vector<TemplateItem> items;
  if (c.add_bos.value_or(false) && p.bos_id >= 0) items.push_back({false, {p.bos_id}});
  items.push_back({true, {}});
  if (c.add_eos.value_or(false) && p.eos_id >= 0) items.push_back({false, {p.eos_id}});
  p.post = {std::move(items)};
}

void generation_ends(const std::string& text, Parts& p) {
  simdjson::dom::parser parser;
  Json root, value;
  if (text.empty() || parser.parse(text).get(root) || root["eos_token_id"].get(value)) return;
  int64_t id = 0;
  if (!value.get(id)) {
    if (id >= 0 && id < Vocab::kMaxId) p.eog_ids.push_back(int32_t(id));
  } else if (value.is_array()) {
    for (const Json e : value.get_array())
      if (!e.get(id) && id >= 0 && id < Vocab::kMaxId) p.eog_ids.push_back(int32_t(id));
  }
}

Result<void> read_sections(const Fields& file, Parts& p) {
  ISO_TRY(const Json model, file.get("model"));
  const auto section = [&](std::string_view key) { return file.find(key); };
  if (const auto v = section("normalizer")) {
    ISO_TRY(p.normalizer, read_normalizer(*v));
  }
  bool raw_bytes = false;
  if (const auto v = section("pre_tokenizer")) {
    ISO_TRY(p.pre_steps, read_pre_tokenizer(*v, takes_raw_bytes(model), raw_bytes));
  }
  ISO_CHECK_OK(read_model(model, p, raw_bytes));
  if (const auto v = section("post_processor")) {
    ISO_TRY(p.post, read_post_processor(*v));
  }
  if (const auto v = section("decoder")) {
    ISO_TRY(p.decoder, read_decoder(*v));
  }
  return {};
}

}  // namespace

Result<Parts> parts_from_json(const VocabSource& source) {
  simdjson::dom::parser parser;
  Json root;
  if (const auto error = parser.parse(source.tokenizer_json).get(root)) {
    return fail(Code::data_loss, std::string("not valid JSON: ") + simdjson::error_message(error), "tokenizer.json", "fetch the file again");
  }
  ISO_TRY(const Fields file, Fields::of(root, "the whole file"));
  if (const auto version = file.string("version", "1.0"); !version || *version != "1.0") return file.error("the version is not 1.0");
  Parts p;
  ISO_CHECK_OK(read_sections(file, p));
  AddedTokenList list(p);
  if (file.find("added_tokens")) {
    ISO_TRY(const auto tokens, file.array("added_tokens"));
    for (const Json e : tokens) {
      ISO_TRY(AddedToken t, added_token(e));
      ISO_CHECK_OK(list.add(std::move(t)));
    }
  }
  Config config;
  read_config(source.special_tokens_map_json, config);
  read_config(source.tokenizer_config_json, config);
  ISO_CHECK_OK(add_config_tokens(list, config));
  p.bos_id = named_id(p, config, "bos_token", source.bos_id);
  p.eos_id = named_id(p, config, "eos_token", source.eos_id);
  override_post(p, config);
  generation_ends(source.generation_config_json, p);
  return p;
}

}  // namespace isotope::text
