#include "serve/tools/toolbox.h"

#include <algorithm>

#include "serve/tools/json_scan.h"

namespace isotope::serve {
namespace {

using Json = nlohmann::ordered_json;

enum : unsigned { kString = 1, kInteger = 2, kNumber = 4, kBoolean = 8, kNull = 16, kObject = 32, kArray = 64 };

struct TypeName {
  const char* name;
  unsigned bits;
};
constexpr TypeName kTypes[] = {{"string", kString}, {"integer", kInteger}, {"number", kInteger | kNumber}, {"boolean", kBoolean},
                               {"null", kNull},     {"object", kObject},   {"array", kArray}};

unsigned type_bits(const Json& name) {
  for (const TypeName& t : kTypes) {
    if (name == t.name) return t.bits;
  }
  return 0;
}

unsigned types_of(const Json& schema, int depth = 0) {
  unsigned bits = 0;
  if (!schema.is_object() || depth > 8) return bits;
  const auto type = schema.find("type");
  if (type != schema.end()) {
    if (!type->is_array()) return type_bits(*type);
    for (const Json& t : *type) bits |= type_bits(t);
    return bits;
  }
  for (const char* either : {"anyOf", "oneOf", "allOf"}) {
    const auto list = schema.find(either);
    if (list == schema.end() || !list->is_array()) continue;
    for (const Json& s : *list) bits |= types_of(s, depth + 1);
  }
  return bits;
}

unsigned value_bits(const nlohmann::json& v) {
  if (v.is_number_integer()) return kInteger;
  if (v.is_number()) return kNumber;
  return v.is_string() ? kString : v.is_boolean() ? kBoolean : v.is_null() ? kNull : v.is_object() ? kObject : kArray;
}

std::string_view trim(std::string_view s) {
  const size_t at = s.find_first_not_of(" \t\r\n");
  return at == std::string_view::npos ? std::string_view{} : s.substr(at, s.find_last_not_of(" \t\r\n") - at + 1);
}

}  // namespace

Toolbox::Toolbox(const Json& tools) {
  if (!tools.is_array()) return;
  for (const Json& tool : tools) {
    const Json& f = tool.at("function");
    auto& types = tools_[f.at("name").get<std::string>()];
    const auto parameters = f.find("parameters");
    if (parameters == f.end() || !parameters->is_object()) continue;
    const auto properties = parameters->find("properties");
    if (properties == parameters->end() || !properties->is_object()) continue;
    for (const auto& [name, schema] : properties->items()) types[name] = types_of(schema);
  }
}

std::string Toolbox::typed(const std::string& tool, const std::string& parameter, std::string_view text) const {
  unsigned types = 0;
  if (const auto t = tools_.find(tool); t != tools_.end()) {
    if (const auto p = t->second.find(parameter); p != t->second.end()) types = p->second;
  }
  if ((types & ~kString) == 0) return json_quote(text);
  std::string value(trim(text));
  for (const auto& [python, json] : {std::pair("True", "true"), std::pair("False", "false"), std::pair("None", "null")}) {
    if (value == python) value = json;
  }
  if (!is_json(value)) return json_quote(text);
  const auto parsed = nlohmann::json::parse(value, nullptr, false);
  const unsigned got = value_bits(parsed);
  const bool null_for_absent = got == kNull && (types & kString) == 0;
  return got != kString && ((types & got) != 0 || null_for_absent) ? value : json_quote(text);
}

void Arguments::set(std::string key, std::string value) {
  const auto same = std::find_if(members_.begin(), members_.end(), [&](const auto& m) { return m.first == key; });
  if (same != members_.end()) {
    same->second = std::move(value);
  } else {
    members_.emplace_back(std::move(key), std::move(value));
  }
}

std::string Arguments::text() const {
  std::string out = "{";
  for (const auto& [key, value] : members_) out += (out.size() > 1 ? ", " : "") + json_quote(key) + ": " + value;
  return out + "}";
}

}  // namespace isotope::serve
