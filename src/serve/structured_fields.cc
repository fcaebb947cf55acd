#include "serve/structured_fields.h"

#include <atomic>
#include <string>
#include <utility>

#include "base/log.h"
#include "serve/embedded_json.h"

namespace isotope::serve {
namespace {

using Kind = text::GrammarSpec::Kind;
using Spec = std::optional<text::GrammarSpec>;

// Schemas and structural tags also come as JSON text.
Result<Json> json_of(const Json& v, const std::string& at) {
  if (!v.is_string()) return v;
  auto parsed = embedded_json(v.get_ref<const std::string&>(), "the text is");
  if (!parsed) return bad_field(at, parsed.error().what, "send an object");
  return parsed;
}

Result<Spec> schema_spec(const Json& v, const std::string& at) {
  ISO_TRY(Json schema, json_of(v, at));
  if (!schema.is_object() && !schema.is_boolean()) return bad_field(at, Fields::mismatch("a JSON schema", v));
  return text::GrammarSpec{.kind = Kind::json_schema, .value = std::move(schema), .at = at};
}

Result<Spec> tag_spec(const Json& v, const std::string& at) {
  ISO_TRY(Json tag, json_of(v, at));
  if (!tag.is_object()) return bad_field(at, Fields::mismatch("a structural tag", v));
  return text::GrammarSpec{.kind = Kind::structural_tag, .value = std::move(tag), .at = at};
}

Result<Spec> text_spec(Kind kind, const Json& v, const std::string& at) {
  if (!v.is_string()) return bad_field(at, Fields::mismatch("a string", v));
  return text::GrammarSpec{.kind = kind, .value = v, .at = at};
}

Result<Spec> choice_spec(const Json& v, const std::string& at) {
  if (!v.is_array()) return bad_field(at, Fields::mismatch("an array of strings", v));
  for (size_t i = 0; i < v.size(); ++i) {
    if (!v[i].is_string()) return bad_field(at + "[" + std::to_string(i) + "]", Fields::mismatch("a string", v[i]));
  }
  return text::GrammarSpec{.kind = Kind::choice, .value = v, .at = at};
}

Result<Spec> flag_spec(const Json& v, const std::string& at) {
  if (!v.is_boolean()) return bad_field(at, Fields::mismatch("a boolean", v));
  if (v == false) return Spec();
  return text::GrammarSpec{.kind = Kind::json, .at = at};
}

Result<Spec> regex_spec(const Json& v, const std::string& at) { return text_spec(Kind::regex, v, at); }
// llama-server and older clients send an empty text for none.
Result<Spec> grammar_spec(const Json& v, const std::string& at) { return v == "" ? Result<Spec>(Spec()) : text_spec(Kind::ebnf, v, at); }

struct Way {
  const char* name;
  Result<Spec> (*read)(const Json&, const std::string& at);
};
constexpr Way kOutputs[] = {{"json", schema_spec}, {"regex", regex_spec}, {"choice", choice_spec}, {"grammar", grammar_spec}, {"json_object", flag_spec}, {"structural_tag", tag_spec}};

Result<void> put(Spec& into, Spec found) {
  if (!found) return {};
  if (into) return bad_field(found->at, "both " + into->at + " and " + found->at + " ask for a form of the answer", "keep one of them");
  into = std::move(found);
  return {};
}

Result<Spec> parse_outputs(const Json& object) {
  const Fields f(object, "structured_outputs");
  Spec out;
  for (const Way& way : kOutputs) {
    const Json* v = f.find(way.name);
    if (v == nullptr) continue;
    ISO_TRY(Spec one, way.read(*v, f.path(way.name)));
    ISO_CHECK_OK(put(out, std::move(one)));
  }
  ISO_TRY(const auto tight, f.boolean("disable_any_whitespace"));
  ISO_TRY(const auto closed, f.boolean("disable_additional_properties"));
  ISO_TRY(const auto pattern, f.string("whitespace_pattern"));
  if (pattern) {
    return tl::unexpected(field_error(f.path("whitespace_pattern"), "a pattern for white space is not supported", "use disable_any_whitespace", Code::unsupported));
  }
  if (!out) return bad_field("structured_outputs", "structured_outputs asks for nothing", "send one of json, regex, choice, grammar, json_object and structural_tag");
  out->any_whitespace = !tight.value_or(false);
  out->closed = closed.value_or(false);
  return out;
}

// OpenAI's json_schema format nests the schema; llama-server puts it beside the type.
Result<Spec> parse_json_schema(const Fields& f) {
  ISO_TRY(const Json* object, f.object("json_schema"));
  if (object == nullptr) {
    const Json* beside = f.find("schema");
    if (beside == nullptr) return bad_field(f.path("json_schema"), "the format needs a json_schema", "send {\"name\": …, \"schema\": {…}}");
    return schema_spec(*beside, f.path("schema"));
  }
  const Fields inner(*object, f.path("json_schema"));
  ISO_CHECK_OK(inner.string("name"));
  ISO_CHECK_OK(inner.string("description"));
  ISO_CHECK_OK(inner.boolean("strict"));
  const Json* schema = inner.find("schema");
  if (schema == nullptr) return bad_field(inner.path("schema"), "json_schema has no schema", "send a JSON schema");
  return schema_spec(*schema, inner.path("schema"));
}

Result<Spec> parse_format(const Json& object) {
  const Fields f(object, "response_format");
  ISO_TRY(const auto type, f.string("type"));
  if (!type) return bad_field(f.path("type"), "a response format needs a type", "send \"json_schema\", \"json_object\" or \"text\"");
  if (*type == "text") return Spec();
  if (*type == "json_object" && f.has("schema")) return schema_spec(*f.find("schema"), f.path("schema"));
  if (*type == "json_object") return text::GrammarSpec{.kind = Kind::json, .at = "response_format"};
  if (*type == "json_schema") return parse_json_schema(f);
  if (*type == "structural_tag") return tag_spec(object, "response_format");
  return bad_field(f.path("type"), "there is no response format " + shown(Json(*type)), "send \"json_schema\", \"json_object\", \"structural_tag\" or \"text\"");
}

struct OldWay {
  const char* name;
  Result<Spec> (*read)(const Json&, const std::string& at);
  bool deprecated;
};
constexpr OldWay kTop[] = {{"guided_json", schema_spec, true},   {"guided_regex", regex_spec, true},     {"guided_choice", choice_spec, true},
                           {"guided_grammar", grammar_spec, true}, {"guided_json_object", flag_spec, true}, {"grammar", grammar_spec, false},
                           {"json_schema", schema_spec, false}};

void note_deprecated(const char* name) {
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  base::log(base::LogLevel::warning, "a client sends {}: guided_… fields are deprecated, structured_outputs replaces them", name);
}

}  // namespace

Result<Spec> parse_structured(const Fields& f) {
  Spec out;
  ISO_TRY(const Json* format, f.object("response_format"));
  if (format != nullptr) {
    ISO_TRY(out, parse_format(*format));
  }
  ISO_TRY(const Json* outputs, f.object("structured_outputs"));
  if (outputs != nullptr) {
    ISO_TRY(Spec one, parse_outputs(*outputs));
    ISO_CHECK_OK(put(out, std::move(one)));
  }
  for (const OldWay& way : kTop) {
    const Json* v = f.find(way.name);
    if (v == nullptr) continue;
    ISO_TRY(Spec one, way.read(*v, way.name));
    if (one && way.deprecated) note_deprecated(way.name);
    ISO_CHECK_OK(put(out, std::move(one)));
  }
  return out;
}

}  // namespace isotope::serve
