#include <algorithm>

#include "text/tokenizer_json.h"

namespace isotope::text {
namespace {

constexpr int kMaxDepth = 16;
constexpr size_t kMaxSteps = 64;

Result<int32_t> known_id(const Fields& f, int64_t id) {
  if (id < 0 || id >= Vocab::kMaxId) return f.error("token id " + std::to_string(id) + " is out of range");
  return int32_t(id);
}

/// ["[SEP]", 102]
Result<int32_t> named_token(const Fields& f, std::string_view key) {
  ISO_TRY(const auto pair, f.array(key));
  int64_t id = 0;
  if (pair.size() != 2 || pair.at(1).get(id)) return f.error("the field '" + std::string(key) + "' must be a token and its id");
  return known_id(f, id);
}

Result<std::vector<int32_t>> special_ids(const Fields& f, std::string_view name) {
  ISO_TRY(const Json table, f.get("special_tokens"));
  ISO_TRY(const Fields tokens, Fields::of(table, f.where() + ", special_tokens"));
  ISO_TRY(const Json entry, tokens.get(name));
  ISO_TRY(const Fields token, Fields::of(entry, f.where() + ", special token '" + std::string(name) + "'"));
  ISO_TRY(const auto list, token.array("ids"));
  std::vector<int32_t> ids;
  for (const Json e : list) {
    int64_t id = 0;
    if (e.get(id)) return token.error("ids must be integers");
    ISO_TRY(const int32_t known, known_id(token, id));
    ids.push_back(known);
  }
  return ids;
}

Result<PostProcessor> template_processing(const Fields& f) {
  ISO_TRY(const auto single, f.array("single"));
  std::vector<TemplateItem> items;
  for (const Json e : single) {
    ISO_TRY(const Fields item, Fields::of(e, f.where() + ", single"));
    if (const auto special = item.find("SpecialToken")) {
      ISO_TRY(const Fields token, Fields::of(*special, f.where() + ", SpecialToken"));
      ISO_TRY(const std::string_view name, token.string("id"));
      ISO_TRY(auto ids, special_ids(f, name));
      items.push_back({false, std::move(ids)});
      continue;
    }
    ISO_TRY(const Json sequence, item.get("Sequence"));
    ISO_TRY(const Fields text, Fields::of(sequence, f.where() + ", Sequence"));
    ISO_TRY(const std::string_view which, text.string("id"));
    if (which != "A") return f.error("a template for one text may not name the sequence '" + std::string(which) + "'");
    items.push_back({true, {}});
  }
  if (std::ranges::count_if(items, [](const TemplateItem& i) { return i.sequence; }) != 1) return f.error("a template must hold the text exactly once");
  return PostProcessor{std::move(items)};
}

Result<PostProcessor> around(const Fields& f) {
  ISO_TRY(const int32_t cls, named_token(f, "cls"));
  ISO_TRY(const int32_t sep, named_token(f, "sep"));
  return PostProcessor{{{false, {cls}}, {true, {}}, {false, {sep}}}};
}

}  // namespace

Result<PostProcessor> read_post_processor(Json value, int depth) {
  if (value.is_null()) return PostProcessor{};
  ISO_TRY(const Fields plain, Fields::of(value, "post-processor"));
  ISO_TRY(const std::string_view type, plain.string("type"));
  if (depth > kMaxDepth) return plain.error("sequences are nested too deep");
  ISO_TRY(const Fields f, Fields::of(value, "post-processor '" + std::string(type) + "'"));
  if (type == "ByteLevel") return PostProcessor{};  // changes offsets only
  if (type == "TemplateProcessing") return template_processing(f);
  if (type == "BertProcessing" || type == "RobertaProcessing") return around(f);
  if (type != "Sequence") return plain.error("the post-processor '" + std::string(type) + "' is not supported");
  ISO_TRY(const auto list, f.array("processors"));
  PostProcessor out;
  for (const Json e : list) {
    ISO_TRY(auto part, read_post_processor(e, depth + 1));
    std::move(part.begin(), part.end(), std::back_inserter(out));
  }
  if (out.size() > kMaxSteps) return f.error("the sequence is too long");
  return out;
}

}  // namespace isotope::text
