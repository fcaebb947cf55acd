#include "text/json_read.h"

namespace isotope::text {

tl::unexpected<Error> Fields::error(std::string what) const {
  return fail(Code::unsupported, std::move(what), "tokenizer.json, " + where_, "use the tokenizer.json that was published with the model");
}

Result<Fields> Fields::of(Json value, std::string where) {
  simdjson::dom::object object;
  if (value.get(object)) return fail(Code::data_loss, "not an object", "tokenizer.json, " + where, "use the tokenizer.json that was published with the model");
  return Fields(object, std::move(where));
}

std::optional<Json> Fields::find(std::string_view key) const {
  Json value;
  // The last of several equal keys counts, as in serde_json's maps; simdjson would give the first.
  bool found = false;
  for (const auto field : object_)
    if (field.key == key) value = field.value, found = true;
  if (!found || value.is_null()) return std::nullopt;
  return value;
}

Result<Json> Fields::get(std::string_view key) const {
  if (auto value = find(key)) return *value;
  return error("the field '" + std::string(key) + "' is missing");
}

Result<bool> Fields::boolean(std::string_view key, std::optional<bool> fallback) const {
  const auto value = find(key);
  if (!value && fallback) return *fallback;
  bool out = false;
  if (!value || value->get(out)) return error("the field '" + std::string(key) + "' must be true or false");
  return out;
}

Result<int64_t> Fields::integer(std::string_view key, std::optional<int64_t> fallback) const {
  const auto value = find(key);
  if (!value && fallback) return *fallback;
  int64_t out = 0;
  if (!value || value->get(out)) return error("the field '" + std::string(key) + "' must be an integer");
  return out;
}

Result<std::string_view> Fields::string(std::string_view key, std::optional<std::string_view> fallback) const {
  const auto value = find(key);
  if (!value && fallback) return *fallback;
  std::string_view out;
  if (!value || value->get(out)) return error("the field '" + std::string(key) + "' must be a string");
  return out;
}

Result<simdjson::dom::array> Fields::array(std::string_view key) const {
  const auto value = find(key);
  simdjson::dom::array out;
  if (!value || value->get(out)) return error("the field '" + std::string(key) + "' must be an array");
  return out;
}

}  // namespace isotope::text
