#include "text/grammar/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/hex_digit.h"
#include "text/grammar/finite.h"
#include "text/grammar/pattern.h"

namespace isotope::text {
namespace {

using Json = nlohmann::ordered_json;

enum : unsigned {
  kString = 1, kInteger = 2, kNumber = 4, kBoolean = 8, kNull = 16, kObject = 32, kArray = 64,
  kNumeric = kInteger | kNumber,
  kAnyType = 127,
  kForm = 128,    ///< decides alone what the schema means
  kNote = 256,    ///< says nothing about values
  kRefused = 512,
};

enum class Shape { any, schema, schemas, named_schemas, count, number, text, names, boolean };

struct Keyword {
  std::string_view name;
  unsigned flags;               ///< types it belongs to, or what it is
  Shape shape = Shape::any;
  const char* remedy = "";      ///< of refused ones
};
constexpr Keyword kKeywords[] = {
    {"type", kNote},
    {"$ref", kForm, Shape::text},
    {"const", kForm},
    {"enum", kForm},
    {"anyOf", kForm, Shape::schemas},
    {"oneOf", kForm, Shape::schemas},
    {"allOf", kForm, Shape::schemas},
    {"pattern", kString, Shape::text},
    {"format", kString, Shape::text},
    {"minLength", kString, Shape::count},
    {"maxLength", kString, Shape::count},
    {"minimum", kNumeric, Shape::number},
    {"maximum", kNumeric, Shape::number},
    {"exclusiveMinimum", kNumeric, Shape::number},
    {"exclusiveMaximum", kNumeric, Shape::number},
    {"multipleOf", kInteger, Shape::number},
    {"items", kArray, Shape::schema},
    {"prefixItems", kArray, Shape::schemas},
    {"minItems", kArray, Shape::count},
    {"maxItems", kArray, Shape::count},
    {"unevaluatedItems", kArray, Shape::schema},
    {"properties", kObject, Shape::named_schemas},
    {"required", kObject, Shape::names},
    {"additionalProperties", kObject, Shape::schema},
    {"patternProperties", kObject, Shape::named_schemas},
    {"propertyNames", kObject, Shape::schema},
    {"minProperties", kObject, Shape::count},
    {"maxProperties", kObject, Shape::count},
    {"unevaluatedProperties", kObject, Shape::schema},
    {"$defs", kNote, Shape::named_schemas},
    {"definitions", kNote, Shape::named_schemas},
    {"title", kNote},
    {"description", kNote},
    {"default", kNote},
    {"examples", kNote},
    {"deprecated", kNote},
    {"readOnly", kNote},
    {"writeOnly", kNote},
    {"$comment", kNote},
    {"$schema", kNote},
    {"contentEncoding", kNote},
    {"contentMediaType", kNote},
    {"not", kRefused},
    {"if", kRefused},
    {"then", kRefused},
    {"else", kRefused},
    {"dependentRequired", kRefused},
    {"dependentSchemas", kRefused},
    {"dependencies", kRefused},
    {"uniqueItems", kRefused, Shape::any, "leave it out, or bound the list with maxItems"},
    {"contains", kRefused},
    {"minContains", kRefused},
    {"maxContains", kRefused},
    {"additionalItems", kRefused, Shape::any, "use prefixItems and items"},
    {"contentSchema", kRefused},
    {"$id", kRefused, Shape::any, "leave it out; references start with '#'"},
    {"$anchor", kRefused, Shape::any, "use a reference that starts with '#/'"},
    {"$dynamicRef", kRefused, Shape::any, "use $ref"},
    {"$dynamicAnchor", kRefused, Shape::any, "use $ref"},
    {"$recursiveRef", kRefused, Shape::any, "use $ref"},
    {"$recursiveAnchor", kRefused, Shape::any, "use $ref"},
};

struct TypeName {
  const char* name;
  unsigned bit;
};
constexpr TypeName kTypes[] = {{"string", kString}, {"integer", kInteger}, {"number", kNumber}, {"boolean", kBoolean},
                               {"null", kNull},     {"object", kObject},   {"array", kArray}};

constexpr std::string_view kFormats[] = {"date",          "date-time", "duration",      "email", "hostname", "ipv4", "ipv6", "json-pointer", "relative-json-pointer", "time",
                                         "uri", "uri-reference", "uri-template", "uuid"};

const Keyword* keyword(std::string_view name) {
  const auto found = std::find_if(std::begin(kKeywords), std::end(kKeywords), [&](const Keyword& k) { return k.name == name; });
  return found == std::end(kKeywords) ? nullptr : &*found;
}

bool fits(const Json& v, unsigned types) {
  if (v.is_number_integer()) return (types & kNumeric) != 0;
  if (v.is_number_float()) return (types & kNumber) != 0 || ((types & kInteger) != 0 && v.get<double>() == double(int64_t(v.get<double>())));
  const unsigned bit = v.is_string() ? kString : v.is_boolean() ? kBoolean : v.is_null() ? kNull : v.is_object() ? kObject : kArray;
  return (types & bit) != 0;
}

class Checker {
 public:
  Checker(bool closed, const SchemaLimits& limits) : closed_(closed), limits_(limits) {}

  Result<Json> schema(const Json& s, const std::string& path, size_t depth);
  /// Every reference points into the checked schema.
  Result<void> references(const Json& checked) const;

 private:
  tl::unexpected<Error> bad(const std::string& path, std::string what, std::string remedy = {}) const {
    return fail(Code::unsupported, std::move(what), path, std::move(remedy));
  }
  Result<void> shape(const Keyword&, const Json& value, const std::string& path);
  Result<void> count_keyword(const Keyword&, const Json& value, const std::string& path) const;
  Result<Json> inner(const Keyword&, const Json& value, const std::string& path, size_t depth);
  Result<unsigned> types(const Json& s, const std::string& path) const;
  Result<Json> form(const Keyword&, const Json& s, const std::string& path, size_t depth);
  Result<Json> literals(const Json& s, const Keyword&, const std::string& path) const;
  Result<std::string> reference(const Json& s, const std::string& path);
  Result<void> string_rules(Json& s, const std::string& path) const;
  Result<void> bounds(const Json& s, const std::string& path) const;
  Result<void> number_rules(Json& out, unsigned types, const std::string& path) const;
  Result<void> array_rules(Json& out, const std::string& path) const;
  Result<void> object_rules(Json& out, const std::string& path) const;

  bool closed_;
  const SchemaLimits& limits_;
  size_t nodes_ = 0;
  struct Reference {
    std::string pointer, uri, path;
  };
  std::vector<Reference> references_;
};

Result<void> Checker::count_keyword(const Keyword& k, const Json& v, const std::string& path) const {
  const bool whole = v.is_number_integer() || (v.is_number_float() && v.get<double>() >= 0 && v.get<double>() < 1e15 && v.get<double>() == double(int64_t(v.get<double>())));
  if (!whole || v.get<double>() < 0) return fail(Code::invalid_argument, std::string(k.name) + " must be an integer of at least 0", path);
  if (v.get<double>() > double(limits_.max_repeat)) {
    return bad(path, fmt::format("{} is {}, at most {} can be held", k.name, v.dump(), limits_.max_repeat), "lower it");
  }
  return {};
}

Result<void> Checker::shape(const Keyword& k, const Json& v, const std::string& path) {
  const auto wrong = [&](const char* expected) { return fail(Code::invalid_argument, fmt::format("{} must be {}", k.name, expected), path); };
  switch (k.shape) {
    case Shape::text: return v.is_string() ? Result<void>() : wrong("a string");
    case Shape::boolean: return v.is_boolean() ? Result<void>() : wrong("a boolean");
    case Shape::number: return v.is_number() ? Result<void>() : wrong("a number");
    case Shape::count: return count_keyword(k, v, path);
    case Shape::schema:
      if (v.is_array()) return bad(path, fmt::format("an array as {} is not supported", k.name), "use prefixItems");
      return v.is_object() || v.is_boolean() ? Result<void>() : wrong("a schema");
    case Shape::named_schemas: return v.is_object() ? Result<void>() : wrong("an object");
    case Shape::names:
      if (!v.is_array() || !std::all_of(v.begin(), v.end(), [](const Json& n) { return n.is_string(); })) return wrong("an array of strings");
      return {};
    case Shape::schemas:
      if (!v.is_array() || v.empty()) return wrong("an array with at least one schema");
      if (v.size() > limits_.max_choices) return bad(path, fmt::format("{} has {} entries, at most {} are allowed", k.name, v.size(), limits_.max_choices));
      return {};
    case Shape::any: return {};
  }
  return {};
}

// The keyword's own schemas, checked.
Result<Json> Checker::inner(const Keyword& k, const Json& v, const std::string& path, size_t depth) {
  if (k.shape == Shape::count && v.is_number_float()) return Json(int64_t(v.get<double>()));  // 2.0 is a whole number, too
  if (k.shape == Shape::schema) {
    if (v.is_boolean() && k.name != "propertyNames") return v;
    return schema(v, path, depth + 1);
  }
  if (k.shape == Shape::named_schemas) {
    Json out = Json::object();
    for (const auto& [name, s] : v.items()) {
      ISO_TRY(out[name], schema(s, path + "." + name.substr(0, 60), depth + 1));
    }
    return out;
  }
  if (k.shape == Shape::schemas) {
    Json out = Json::array();
    for (size_t i = 0; i < v.size(); ++i) {
      ISO_TRY(Json s, schema(v[i], fmt::format("{}[{}]", path, i), depth + 1));
      out.push_back(std::move(s));
    }
    return out;
  }
  return v;
}

Result<unsigned> Checker::types(const Json& s, const std::string& path) const {
  const auto it = s.find("type");
  if (it == s.end()) return kAnyType;
  const auto bit_of = [&](const Json& name) -> Result<unsigned> {
    for (const TypeName& t : kTypes) {
      if (name == t.name) return t.bit;
    }
    return fail(Code::invalid_argument, "there is no type " + name.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60), path + ".type",
                "use string, integer, number, boolean, null, object or array");
  };
  if (!it->is_array()) return bit_of(*it);
  unsigned bits = 0;
  for (const Json& name : *it) {
    ISO_TRY(const unsigned bit, bit_of(name));
    bits |= bit;
  }
  if (bits == 0) return fail(Code::invalid_argument, "type lists no type", path + ".type");
  return bits;
}

// const and enum beside a type: the values of that type remain.
Result<Json> Checker::literals(const Json& s, const Keyword& k, const std::string& path) const {
  ISO_TRY(const unsigned allowed, types(s, path));
  const Json& given = s.at(std::string(k.name));
  const std::string at = path + "." + std::string(k.name);
  if (k.name == "const") {
    if (!fits(given, allowed)) return fail(Code::invalid_argument, "the value of const is not of the schema's type, so nothing is valid", at);
    return Json{{"const", given}};
  }
  if (!given.is_array() || given.empty()) return fail(Code::invalid_argument, "enum must be an array with at least one value", at);
  if (given.size() > limits_.max_choices) return bad(at, fmt::format("enum has {} values, at most {} are allowed", given.size(), limits_.max_choices));
  Json kept = Json::array();
  for (const Json& v : given) {
    if (fits(v, allowed)) kept.push_back(v);
  }
  if (kept.empty()) return fail(Code::invalid_argument, "no value of enum is of the schema's type, so nothing is valid", at);
  return Json{{"enum", std::move(kept)}};
}

// A fragment is percent-encoded (RFC 3986); what is no escape stands for itself.
std::string fragment_text(const std::string& uri) {
  using base::hex_digit;
  std::string out;
  for (size_t i = 0; i < uri.size(); ++i) {
    const bool escape = uri[i] == '%' && i + 2 < uri.size() && hex_digit(uri[i + 1]) >= 0 && hex_digit(uri[i + 2]) >= 0;
    out += escape ? char(hex_digit(uri[i + 1]) * 16 + hex_digit(uri[i + 2])) : uri[i];
    if (escape) i += 2;
  }
  return out;
}

Result<std::string> Checker::reference(const Json& s, const std::string& path) {
  const std::string& uri = s.at("$ref").get_ref<const std::string&>();
  if (uri != "#" && !uri.starts_with("#/")) {
    return bad(path + ".$ref", "the reference '" + uri.substr(0, 60) + "' is not supported", "use '#' or a reference that starts with '#/'");
  }
  references_.push_back({.pointer = fragment_text(uri.substr(1)), .uri = uri, .path = path + ".$ref"});
  return "#" + references_.back().pointer;
}

Result<void> Checker::references(const Json& checked) const {
  for (const auto& [pointer, uri, path] : references_) {
    bool found = false;
    try {
      const Json::json_pointer at(pointer);
      found = checked.contains(at) && (checked.at(at).is_object() || checked.at(at).is_boolean());
    } catch (const Json::exception&) {
      // no pointer: told below
    }
    if (!found) return fail(Code::invalid_argument, "the reference '" + uri.substr(0, 60) + "' points to no schema", path, "define it, for example below $defs");
  }
  return {};
}

Result<Json> Checker::form(const Keyword& k, const Json& s, const std::string& path, size_t depth) {
  for (const auto& [name, value] : s.items()) {
    const Keyword* other = keyword(name);
    if (other == nullptr || other->name == k.name || (other->flags & kNote) != 0) continue;
    return bad(path + "." + name, fmt::format("the keyword '{}' beside '{}' is not supported", name, k.name), "keep one of them");
  }
  const Json& value = s.at(std::string(k.name));
  if (k.name == "const" || k.name == "enum") return literals(s, k, path);
  if (s.contains("type")) return bad(path + ".type", fmt::format("the keyword 'type' beside '{}' is not supported", k.name), "move it into the schemas");
  ISO_CHECK_OK(shape(k, value, path + "." + std::string(k.name)));
  if (k.name == "$ref") {
    ISO_TRY(std::string target, reference(s, path));
    return Json{{"$ref", std::move(target)}};
  }
  if (k.name == "allOf" && value.size() > 1) return bad(path + ".allOf", "allOf of several schemas is not supported", "write them as one schema");
  ISO_TRY(Json schemas, inner(k, value, path + "." + std::string(k.name), depth));
  return Json{{std::string(k.name), std::move(schemas)}};
}

Result<void> Checker::bounds(const Json& s, const std::string& path) const {
  constexpr std::pair<const char*, const char*> kPairs[] = {{"minLength", "maxLength"}, {"minItems", "maxItems"}, {"minProperties", "maxProperties"}, {"minimum", "maximum"}};
  for (const auto& [least, most] : kPairs) {
    if (!s.contains(least) || !s.contains(most) || s[least].get<double>() <= s[most].get<double>()) continue;
    return fail(Code::invalid_argument, fmt::format("{} {} is above {} {}, so nothing is valid", least, s[least].dump(), most, s[most].dump()), path + "." + least, "correct one of them");
  }
  return {};
}

// Bounds of integers become integers, so that 1.5 is a bound like any other; bounds that nothing lies between are told here, by name.
Result<void> Checker::number_rules(Json& s, unsigned types, const std::string& path) const {
  constexpr double kExact = 9007199254740992.0;
  const bool whole = (types & kNumber) == 0;
  const auto value = [&](const char* name) -> std::optional<double> { return s.contains(name) ? std::optional(s[name].get<double>()) : std::nullopt; };
  struct Bound {
    const char *name, *open_name;
    double sign;   ///< so that both sides are read as lower bounds
  };
  constexpr Bound kBounds[] = {{"minimum", "exclusiveMinimum", 1}, {"maximum", "exclusiveMaximum", -1}};
  std::optional<double> ends[2];
  bool open[2] = {false, false};
  const char* named[2] = {"minimum", "maximum"};
  for (int i = 0; i < 2; ++i) {
    const Bound& b = kBounds[i];
    const auto closed_end = value(b.name), open_end = value(b.open_name);
    if (!closed_end && !open_end) continue;
    open[i] = open_end && (!closed_end || b.sign * *open_end >= b.sign * *closed_end);
    named[i] = open[i] ? b.open_name : b.name;
    ends[i] = open[i] ? *open_end : *closed_end;
    if (!whole || std::abs(*ends[i]) >= kExact) continue;
    const double lower = b.sign * *ends[i], least = open[i] ? std::floor(lower) + 1 : std::ceil(lower);
    s.erase(b.open_name);
    s[b.name] = int64_t(b.sign * least);
    ends[i] = b.sign * least;
    open[i] = false;
  }
  if (ends[0] && ends[1] && (*ends[0] > *ends[1] || (*ends[0] == *ends[1] && (open[0] || open[1])))) {
    return fail(Code::invalid_argument, fmt::format("no {} lies between {} and {}, so nothing is valid", whole ? "integer" : "number", named[0], named[1]), path + "." + named[0], "correct one of them");
  }
  const auto step = value("multipleOf");
  if (whole && step && *step >= 1 && *step < kExact && ends[0] && ends[1] && std::ceil(*ends[0] / *step) * *step > *ends[1]) {
    return fail(Code::invalid_argument, fmt::format("no multiple of {} lies between {} and {}, so nothing is valid", s["multipleOf"].dump(), named[0], named[1]), path + ".multipleOf", "correct one of them");
  }
  return {};
}

Result<void> Checker::array_rules(Json& out, const std::string& path) const {
  if (!out.contains("items") && !out.contains("unevaluatedItems")) out["items"] = out.contains("prefixItems") ? Json(false) : Json::object();
  const size_t described = out.contains("prefixItems") ? out["prefixItems"].size() : 0;
  const bool closed = out.contains("items") ? out["items"] == false : out["unevaluatedItems"] == false;
  if (closed && out.contains("minItems") && out["minItems"].get<size_t>() > described) {
    return fail(Code::invalid_argument, fmt::format("minItems is {}, but only {} items are described and no others are allowed, so nothing is valid", out["minItems"].dump(), described), path + ".minItems",
                "lower it");
  }
  // Items beyond the last that there may be say nothing.
  if (out.contains("maxItems") && out["maxItems"].get<size_t>() < described) {
    Json& items = out["prefixItems"];
    items.erase(items.begin() + ptrdiff_t(out["maxItems"].get<size_t>()), items.end());
    out.erase("unevaluatedItems");
    out["items"] = false;
    if (items.empty()) out.erase("prefixItems");
  }
  return {};
}

Result<void> Checker::string_rules(Json& s, const std::string& path) const {
  const bool shaped = s.contains("pattern") || s.contains("format");
  if (const auto format = s.find("format"); format != s.end()) {
    const std::string& name = format->get_ref<const std::string&>();
    if (std::find(std::begin(kFormats), std::end(kFormats), name) == std::end(kFormats)) {
      return bad(path + ".format", "the format '" + name.substr(0, 60) + "' is not supported", fmt::format("use one of {}, or a pattern", fmt::join(kFormats, ", ")));
    }
    if (s.contains("pattern")) return bad(path + ".pattern", "the keyword 'pattern' beside 'format' is not supported", "keep one of them");
  }
  for (const char* length : {"minLength", "maxLength"}) {
    if (shaped && s.contains(length)) {
      return bad(path + "." + length, fmt::format("the keyword '{}' beside 'pattern' or 'format' is not supported", length), "write the length into the pattern");
    }
  }
  if (s.contains("pattern") && s["pattern"].get_ref<const std::string&>().size() > 4096) return bad(path + ".pattern", "the pattern is longer than 4096 bytes");
  if (s.contains("pattern")) {
    ISO_TRY(s["pattern"], json_pattern(s["pattern"].get_ref<const std::string&>(), path + ".pattern"));
  }
  return {};
}

// Named properties: only these, since a further one could repeat a name with a value that its schema forbids. Otherwise a map.
Result<void> Checker::object_rules(Json& out, const std::string& path) const {
  Json rest = out.contains("additionalProperties") ? out["additionalProperties"] : out.value("unevaluatedProperties", Json(!closed_ && !(out.contains("properties") && out["properties"].empty())));
  const bool named = out.contains("properties") && !out["properties"].empty();
  const Json required = out.value("required", Json::array());
  if (named || !required.empty()) {
    for (const char* other : {"patternProperties", "propertyNames"}) {
      if (out.contains(other)) return bad(path + "." + other, fmt::format("the keyword '{}' beside named properties is not supported", other), "name all properties, or none");
    }
  }
  for (const Json& name : required) {
    Json& properties = out["properties"];
    if (properties.is_null()) properties = Json::object();
    if (properties.contains(name.get_ref<const std::string&>())) continue;
    if (rest == false) return fail(Code::invalid_argument, "'" + name.get<std::string>().substr(0, 60) + "' is required but no property", path + ".required", "add it to properties");
    properties[name.get<std::string>()] = rest == true ? Json::object() : rest;
  }
  if (out.contains("patternProperties") && out["patternProperties"].size() > 1) {
    return bad(path + ".patternProperties", "patternProperties of several patterns is not supported", "keep one of them");
  }
  if (out.contains("patternProperties") && !out["patternProperties"].empty()) {
    Json only = std::exchange(out["patternProperties"], Json::object());
    ISO_TRY(const std::string pattern, json_pattern(only.begin().key(), path + ".patternProperties"));
    out["patternProperties"][pattern] = std::move(only.begin().value());
  }
  const bool map = !out.contains("properties") || out["properties"].empty();
  if (map && out.contains("minProperties") && out["minProperties"].get<double>() > 1) {
    return bad(path + ".minProperties", "minProperties above 1 is not supported where property names are free", "name the properties");
  }
  const size_t described = map ? 0 : out["properties"].size();
  const bool closed = !map || (rest == false && (!out.contains("patternProperties") || out["patternProperties"].empty()));
  if (closed && out.contains("minProperties") && out["minProperties"].get<size_t>() > described) {
    return fail(Code::invalid_argument, fmt::format("minProperties is {}, but there are only {} properties, so nothing is valid", out["minProperties"].dump(), described), path + ".minProperties", "lower it");
  }
  if (out.contains("maxProperties") && out["maxProperties"].get<size_t>() < required.size()) {
    return fail(Code::invalid_argument, fmt::format("maxProperties is {}, but {} properties are required, so nothing is valid", out["maxProperties"].dump(), required.size()), path + ".maxProperties", "raise it");
  }
  out.erase("unevaluatedProperties");
  out["additionalProperties"] = map ? rest : Json(false);
  if (out.contains("properties") && out["properties"].empty()) out.erase("properties");
  return {};
}

Result<Json> Checker::schema(const Json& s, const std::string& path, size_t depth) {
  if (s == true) return Json::object();
  if (s == false) return fail(Code::invalid_argument, "the schema 'false' lets nothing be valid", path, "leave it out");
  if (!s.is_object()) return fail(Code::invalid_argument, "a schema must be an object", path);
  if (depth > limits_.max_depth) return bad(path, fmt::format("the schema is nested more than {} deep", limits_.max_depth), "flatten it, or use $ref");
  if (++nodes_ > limits_.max_nodes) return bad(path, fmt::format("the schema has more than {} parts", limits_.max_nodes), "make it smaller");

  Json out = Json::object();
  const Keyword* chosen = nullptr;
  for (const auto& [name, value] : s.items()) {
    const Keyword* k = keyword(name);
    if (k == nullptr) continue;  // validators take unknown keywords for notes, too
    if ((k->flags & kRefused) != 0 && !(name == "uniqueItems" && value == false) && !(name == "$id" && depth == 0)) {
      return bad(path + "." + name, "the keyword '" + name + "' is not supported", *k->remedy != 0 ? k->remedy : "leave it out");
    }
    if ((k->flags & kForm) != 0 && chosen == nullptr) chosen = k;
  }
  const auto definitions = [&](Json& into) -> Result<void> {
    for (const char* name : {"$defs", "definitions"}) {
      if (!s.contains(name)) continue;
      const Keyword& k = *keyword(name);
      ISO_CHECK_OK(shape(k, s.at(name), path + "." + name));
      ISO_TRY(into[name], inner(k, s.at(name), path + "." + name, depth));
    }
    return {};
  };
  if (chosen != nullptr) {
    ISO_TRY(out, form(*chosen, s, path, depth));
    ISO_CHECK_OK(definitions(out));
    return out;
  }

  ISO_TRY(const unsigned allowed, types(s, path));
  unsigned implied = kAnyType;
  for (const auto& [name, value] : s.items()) {
    const Keyword* k = keyword(name);
    if (k == nullptr || (k->flags & (kNote | kRefused)) != 0) continue;
    if (name == "format" && (allowed & kString) == 0) continue;   // "int32" and the like
    if (name == "propertyNames" && value == true) continue;       // every name
    if (name == "multipleOf" && (allowed & kNumber) != 0 && s.contains("type")) {
      return bad(path + ".multipleOf", "the keyword 'multipleOf' is supported for type integer only", "use type integer, or leave it out");
    }
    if ((k->flags & allowed) == 0) continue;                      // says nothing about values of these types
    ISO_CHECK_OK(shape(*k, value, path + "." + name));
    implied &= k->flags;
    ISO_TRY(out[name], inner(*k, value, path + "." + name, depth));
    if (k->shape == Shape::count) out[name] = int64_t(value.get<double>());   // 2.0 is an integer
  }
  ISO_CHECK_OK(bounds(out, path));
  if (!s.contains("type") && !out.empty()) {
    implied &= kAnyType;
    if (implied == 0) return bad(path, "the keywords belong to different types", "add a type");
    for (const TypeName& t : kTypes) {
      if ((implied & t.bit) != 0) out["type"] = t.name;  // of integer and number the wider one
    }
  } else if (s.contains("type")) {
    out["type"] = s["type"];
  }
  const unsigned final_types = out.contains("type") ? *types(out, path) : kAnyType;
  if (out.contains("type") && (final_types & kString) != 0) ISO_CHECK_OK(string_rules(out, path));
  if (out.contains("type") && (final_types & kObject) != 0) ISO_CHECK_OK(object_rules(out, path));
  if (out.contains("type") && (final_types & kNumeric) != 0) ISO_CHECK_OK(number_rules(out, final_types, path));
  if (out.contains("type") && (final_types & kArray) != 0) ISO_CHECK_OK(array_rules(out, path));
  ISO_CHECK_OK(definitions(out));
  return out;
}

}  // namespace

Result<Json> checked_schema(const Json& schema, const std::string& at, bool closed, const SchemaLimits& limits) {
  Checker checker(closed, limits);
  ISO_TRY(Json out, checker.schema(schema, at, 0));
  ISO_CHECK_OK(checker.references(out));
  ISO_CHECK_OK(check_finite(out, at));
  const size_t bytes = out.dump(-1, ' ', false, Json::error_handler_t::replace).size();
  if (bytes > limits.max_bytes) return fail(Code::unsupported, fmt::format("the schema has {} bytes, at most {} are allowed", bytes, limits.max_bytes), at, "make it smaller");
  return out;
}

std::vector<std::string_view> held_keywords() {
  std::vector<std::string_view> out;
  for (const Keyword& k : kKeywords) {
    if ((k.flags & (kRefused | kNote)) == 0 || k.name == "type" || k.shape == Shape::named_schemas) out.push_back(k.name);
  }
  return out;
}

std::vector<std::string_view> refused_keywords() {
  std::vector<std::string_view> out;
  for (const Keyword& k : kKeywords) {
    if ((k.flags & kRefused) != 0) out.push_back(k.name);
  }
  return out;
}

}  // namespace isotope::text
