#include "serve/json_body.h"

#include <simdjson.h>

#include <algorithm>
#include <map>
#include <utility>

#include "serve/json_numbers.h"

namespace isotope::serve {
namespace {

namespace dom = simdjson::dom;

Json convert(const dom::element& e);

// ordered_json looks keys up by walking; an object of a million keys would take hours, so wide objects are deduplicated by a tree here.
Json convert_object(const dom::object& object) {
  const bool wide = object.size() > 16;
  Json out = Json::object();
  auto& fields = out.get_ref<Json::object_t&>();
  fields.reserve(object.size());
  std::map<std::string_view, size_t> seen;  // keys live in the parsed document, which outlives this
  for (const auto& [key, value] : object) {
    size_t at = fields.size();
    if (wide) {
      at = seen.emplace(key, at).first->second;
    } else {
      for (size_t i = 0; i < fields.size(); ++i) {
        if ((fields.begin() + ptrdiff_t(i))->first == key) at = i;
      }
    }
    if (at < fields.size()) {
      (fields.begin() + ptrdiff_t(at))->second = convert(value);
    } else {
      fields.emplace_back(std::string(key), convert(value));
    }
  }
  return out;
}

Json convert(const dom::element& e) {
  switch (e.type()) {
    case dom::element_type::ARRAY: {
      Json out = Json::array();
      auto& items = out.get_ref<Json::array_t&>();
      const dom::array array = e.get_array().value_unsafe();
      items.reserve(array.size());
      for (const dom::element item : array) items.push_back(convert(item));
      return out;
    }
    case dom::element_type::OBJECT: return convert_object(e.get_object().value_unsafe());
    case dom::element_type::INT64: return e.get_int64().value_unsafe();
    case dom::element_type::UINT64: return e.get_uint64().value_unsafe();
    case dom::element_type::DOUBLE: return e.get_double().value_unsafe();
    case dom::element_type::STRING: return std::string(e.get_string().value_unsafe());
    case dom::element_type::BOOL: return e.get_bool().value_unsafe();
    case dom::element_type::NULL_VALUE: return nullptr;
  }
  return nullptr;
}

// simdjson does not say where; this second look happens on errors only. nlohmann's parser keeps its own stack on the heap, so depth is no danger.
struct FindError : nlohmann::json_sax<Json> {
  size_t at = 0;
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    at = position;
    return false;
  }
};

const char* meaning(simdjson::error_code code) {
  switch (code) {
    case simdjson::EMPTY: return "it is empty";
    case simdjson::UTF8_ERROR: return "it is not valid UTF-8";
    case simdjson::STRING_ERROR: return "a string holds a wrong escape (perhaps half of a surrogate pair)";
    case simdjson::UNCLOSED_STRING: return "a string does not end";
    case simdjson::UNESCAPED_CHARS: return "a string holds a control character that must be escaped";
    case simdjson::NUMBER_ERROR: return "a number is malformed or out of range";
    case simdjson::T_ATOM_ERROR:
    case simdjson::F_ATOM_ERROR:
    case simdjson::N_ATOM_ERROR: return "a word is neither true, false nor null";
    default: return "its syntax is wrong";
  }
}

}  // namespace

Result<Json> parse_json(std::string_view text, size_t max_depth) {
  dom::parser parser;
  if (parser.allocate(std::max<size_t>(text.size(), 64), max_depth) != simdjson::SUCCESS) {
    return fail(Code::resource_exhausted, "no memory to parse a body of " + std::to_string(text.size()) + " bytes");
  }
  dom::element root;
  const simdjson::error_code code = parser.parse(text.data(), text.size(), true).get(root);
  if (code == simdjson::SUCCESS) return convert(root);
  if (code == simdjson::NUMBER_ERROR) {
    const auto fitting = with_fitting_numbers(text);
    if (fitting) return parse_json(*fitting, max_depth);
  }
  if (code == simdjson::DEPTH_ERROR) {
    return fail(Code::invalid_argument, "the JSON body is nested deeper than " + std::to_string(max_depth) + " levels", {}, "flatten it");
  }
  std::string where;
  if (!text.empty() && code != simdjson::UTF8_ERROR) {
    FindError find;
    Json::sax_parse(text.begin(), text.end(), &find);
    if (find.at > 0) where = " near byte " + std::to_string(find.at);
  }
  return fail(Code::invalid_argument, "the body is not valid JSON: " + std::string(meaning(code)) + where, {}, "send one JSON object");
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string shortened(std::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  size_t cut = limit;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return std::string(text.substr(0, cut)) + "…";
}

std::string shown(const Json& value) {
  if (value.is_array()) return value.empty() ? "[]" : "an array of " + std::to_string(value.size());
  if (value.is_object()) return value.empty() ? "{}" : "an object of " + std::to_string(value.size());
  if (value.is_string()) return dump(Json(shortened(value.get_ref<const std::string&>())));
  return dump(value);
}

}  // namespace isotope::serve
