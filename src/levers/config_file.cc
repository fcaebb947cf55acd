#include "levers/config_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <toml++/toml.h>

#include "base/input_file.h"

namespace isotope::levers {

namespace {

using Map = std::map<std::string, std::string>;
constexpr size_t kMaxBytes = 1 << 20;

tl::unexpected<Error> wrong_type(const std::string& path, const std::string& key) {
  return fail(Code::invalid_argument, fmt::format("'{}' has a value that is not text, a number, true, false or a list of these", key), path,
              "write NAME = VALUE");
}

Result<std::string> scalar(const nlohmann::json& v, const std::string& path, const std::string& key) {
  if (v.is_string()) return v.get<std::string>();
  if (v.is_boolean() || v.is_number()) return v.dump();
  if (v.is_null()) return std::string();
  if (v.is_object()) return v.dump();  // a JSON-valued setting
  std::string out;
  for (const auto& item : v) {
    if (item.is_structured()) return wrong_type(path, key);
    out += (out.empty() ? "" : ",") + (item.is_string() ? item.get<std::string>() : item.dump());
  }
  return out;
}

Result<void> flatten(const nlohmann::json& table, const std::string& path, Map& out) {
  for (const auto& [key, value] : table.items()) {
    if (key == "levers" && value.is_object()) {
      ISO_CHECK_OK(flatten(value, path, out));
      continue;
    }
    ISO_TRY(out[key], scalar(value, path, key));
  }
  return {};
}

nlohmann::json to_json(const toml::node& node) {
  using json = nlohmann::json;
  if (const auto* t = node.as_table()) {
    json j = json::object();
    for (const auto& [k, v] : *t) j[std::string(k.str())] = to_json(v);
    return j;
  }
  if (const auto* a = node.as_array()) {
    json j = json::array();
    for (const auto& v : *a) j.push_back(to_json(v));
    return j;
  }
  if (const auto* s = node.as_string()) return s->get();
  if (const auto* b = node.as_boolean()) return b->get();
  if (const auto* i = node.as_integer()) return i->get();
  if (const auto* f = node.as_floating_point()) return f->get();
  std::ostringstream s;  // dates and times
  node.visit([&](const auto& n) { s << n; });
  return s.str();
}

}  // namespace

Result<Map> parse_config(const std::string& text, bool json, const std::string& path) {
  nlohmann::json tree;
  if (json) {
    // A settings file is a table of values; anything nested deeper is a mistake, and bounding it keeps the parser's recursion bounded.
    int depth = 0;
    for (char c : text) {
      depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
      if (depth > 64) return fail(Code::invalid_argument, "the settings are nested more than 64 deep", path, "write {\"NAME\": VALUE, …}");
    }
    tree = nlohmann::json::parse(text, nullptr, false);
    if (!tree.is_object()) return fail(Code::invalid_argument, "the file is not a JSON object", path, "write {\"NAME\": VALUE, …}");
  } else {
    try {  // Debian's library is built with exceptions; they end here
      tree = to_json(toml::parse(std::string_view(text), path));
    } catch (const toml::parse_error& e) {
      return fail(Code::invalid_argument, std::string(e.description()), fmt::format("{}:{}", path, e.source().begin.line), "write NAME = VALUE lines in TOML");
    }
  }
  Map out;
  ISO_CHECK_OK(flatten(tree, path, out));
  return out;
}

Result<Map> read_config_file(const std::string& path) {
  ISO_TRY(const std::string text, base::read_input(path, kMaxBytes, "settings file"));
  return parse_config(text, path.ends_with(".json"), path);
}

}  // namespace isotope::levers
