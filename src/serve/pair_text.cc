#include "serve/pair_text.h"

#include <algorithm>
#include <utility>

namespace isotope::serve {
namespace {

tl::unexpected<Error> wrong(std::string what) {
  return fail(Code::data_loss, std::move(what), "tokenizer.json, post_processor", "use the tokenizer.json that was published with the model");
}

Result<int32_t> id_of(const Json& v) {
  const auto id = v.is_number_integer() ? v.get<int64_t>() : -1;
  if (id < 0 || id > INT32_MAX) return wrong("a token's id is " + shown(v));
  return int32_t(id);
}

/// ["[SEP]", 102]
Result<int32_t> named(const Json& processor, const char* key) {
  const auto it = processor.find(key);
  if (it == processor.end() || !it->is_array() || it->size() != 2) return wrong(std::string("the field '") + key + "' is no token with its id");
  return id_of((*it)[1]);
}

std::string type_of(const Json& processor) {
  const auto it = processor.find("type");
  return it != processor.end() && it->is_string() ? it->get<std::string>() : std::string();
}

const Json* member(const Json& object, const char* key) {
  const auto it = object.is_object() ? object.find(key) : object.end();
  return it == object.end() ? nullptr : &*it;
}

}  // namespace

TextFrame frame_of(const text::Tokenizer& t) {
  // Any text of plain letters shows where the text's own tokens stand.
  const auto plain = t.encode("text", false, false), framed = t.encode("text", true, false);
  const auto at = std::search(framed.begin(), framed.end(), plain.begin(), plain.end());
  if (plain.empty() || at == framed.end()) return {};
  return {{framed.begin(), at}, {at + std::ptrdiff_t(plain.size()), framed.end()}};
}

Result<std::vector<PairTemplate::Item>> PairTemplate::items_of(const Json& p) {
  if (!p.is_object()) return std::vector<Item>{};
  const std::string type = type_of(p);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    ISO_TRY(const int32_t cls, named(p, "cls"));
    ISO_TRY(const int32_t sep, named(p, "sep"));
    if (type == "BertProcessing") return std::vector<Item>{{-1, 0, {cls}}, {0}, {-1, 0, {sep}}, {1, 1}, {-1, 1, {sep}}};
    return std::vector<Item>{{-1, 0, {cls}}, {0}, {-1, 0, {sep, sep}}, {1}, {-1, 0, {sep}}};
  }
  if (type == "Sequence") {
    const Json* list = member(p, "processors");
    for (const Json& one : list != nullptr && list->is_array() ? *list : Json::array()) {
      if (type_of(one) == "Sequence") continue;
      ISO_TRY(auto items, items_of(one));
      if (!items.empty()) return items;
    }
  }
  std::vector<Item> out;
  const Json *pair = member(p, "pair"), *tokens = member(p, "special_tokens");
  if (type != "TemplateProcessing" || pair == nullptr || !pair->is_array()) return out;
  for (const Json& e : *pair) {
    const Json *special = member(e, "SpecialToken"), *text = member(e, "Sequence"), *own = special != nullptr ? special : text;
    if (own == nullptr || !own->is_object()) return wrong("an item of the template for pairs is " + shown(e));
    Item item{.type = own->value("type_id", Json(0)) == Json(1) ? 1 : 0};
    const std::string id = own->value("id", Json()).is_string() ? own->value("id", std::string()) : std::string();
    if (text != nullptr) {
      if (id != "A" && id != "B") return wrong("the template for pairs names the text " + shown(Json(id)));
      item.text = id == "B";
    } else {
      const Json* entry = tokens != nullptr ? member(*tokens, id.c_str()) : nullptr;
      const Json* ids = entry != nullptr ? member(*entry, "ids") : nullptr;
      if (ids == nullptr || !ids->is_array()) return wrong("the template for pairs names the token " + shown(Json(id)) + ", which has no ids");
      for (const Json& v : *ids) {
        ISO_TRY(const int32_t known, id_of(v));
        item.ids.push_back(known);
      }
    }
    out.push_back(std::move(item));
  }
  for (const int which : {0, 1})
    if (std::ranges::count_if(out, [&](const Item& i) { return i.text == which; }) != 1) return wrong("the template for pairs must hold each text once");
  return out;
}

Result<PairTemplate> PairTemplate::read(const VocabSource& v, const TextFrame& frame) {
  PairTemplate t;
  if (!v.tokenizer_json.empty()) {
    ISO_TRY(const Json json, parse_json(v.tokenizer_json, 64));
    if (const Json* p = member(json, "post_processor")) {
      ISO_TRY(t.items_, items_of(*p));
    }
  }
  if (t.items_.empty()) t.items_ = {{-1, 0, frame.before}, {0}, {-1, 0, frame.after}, {1, 1}, {-1, 1, frame.after}};
  return t;
}

size_t PairTemplate::added() const {
  size_t n = 0;
  for (const Item& i : items_) n += i.ids.size();
  return n;
}

PoolInput PairTemplate::join(const std::vector<int32_t>& first, const std::vector<int32_t>& second) const {
  PoolInput out;
  for (const Item& i : items_) {
    if (i.type == 1 && out.second < 0) out.second = int64_t(out.tokens.size());
    const std::vector<int32_t>& ids = i.text < 0 ? i.ids : i.text == 0 ? first : second;
    out.tokens.insert(out.tokens.end(), ids.begin(), ids.end());
  }
  return out;
}

void fit_pair(size_t& n1, size_t& n2, size_t most) {
  if (n1 + n2 <= most) return;
  size_t &shorter = n1 <= n2 ? n1 : n2, &longer = n1 <= n2 ? n2 : n1;
  longer = std::max(shorter, most - std::min(most, shorter));
  if (shorter > most) longer = shorter;
  if (shorter + longer <= most) return;
  shorter = most / 2;
  longer = shorter + most % 2;
}

}  // namespace isotope::serve
