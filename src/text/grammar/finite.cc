#include "text/grammar/finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace isotope::text {
namespace {

using Json = nlohmann::ordered_json;

/// One way to a finite value: all of `all`, and at least so many of `some`, have one.
struct Way {
  std::vector<size_t> all, some;
  size_t at_least = 0;
};

struct Node {
  const Json* schema;
  std::string path;
  std::vector<Way> ways;
  std::vector<size_t> needed_by;
  bool finite = false;
};

class Graph {
 public:
  Graph(const Json& root, const std::string& at) : root_(root) {
    node(root, at);
    for (size_t i = 0; i < nodes_.size(); ++i) expand(i);   // grows as it goes
    settle();
  }

  /// The reference of the first endless schema, else that schema; null when all end.
  const Node* endless() const {
    const Node* found = nullptr;
    for (const Node& n : nodes_) {
      if (n.finite) continue;
      if (n.schema->contains("$ref")) return &n;
      if (found == nullptr) found = &n;
    }
    return found;
  }

 private:
  size_t node(const Json& schema, std::string path) {
    const auto [it, fresh] = index_.try_emplace(&schema, nodes_.size());
    if (fresh) nodes_.push_back({.schema = &schema, .path = std::move(path), .ways = {}, .needed_by = {}});
    return it->second;
  }
  /// The part below the keyword that is a schema of its own, else nothing to wait for.
  void child(size_t of, const Json& schema, const std::string& below, std::vector<size_t>& into) {
    if (schema.is_object()) into.push_back(node(schema, nodes_[of].path + "." + below));
  }

  void expand(size_t i) {
    const Json& s = *nodes_[i].schema;
    std::vector<Way> ways;
    if (!s.is_object() || s.contains("const") || s.contains("enum")) {
      ways.emplace_back();
    } else if (s.contains("$ref")) {
      ways.push_back({.all = {node(root_.at(Json::json_pointer(s["$ref"].get_ref<const std::string&>().substr(1))), nodes_[i].path)}, .some = {}});
    } else if (const char* list = list_of(s); list != nullptr) {
      Way any{.all = {}, .some = {}, .at_least = 1};
      for (size_t k = 0; k < s[list].size(); ++k) child(i, s[list][k], fmt::format("{}[{}]", list, k), any.some);
      ways.push_back(std::move(any));
    } else {
      typed(i, s, ways);
    }
    for (const Way& way : ways) {
      for (const auto* part : {&way.all, &way.some})
        for (const size_t k : *part) nodes_[k].needed_by.push_back(i);
    }
    nodes_[i].ways = std::move(ways);
  }

  static const char* list_of(const Json& s) {
    for (const char* name : {"anyOf", "oneOf", "allOf"})
      if (s.contains(name)) return name;
    return nullptr;
  }

  void typed(size_t i, const Json& s, std::vector<Way>& ways) {
    const Json types = s.value("type", Json());
    const auto has = [&](const char* name) { return types == name || (types.is_array() && std::find(types.begin(), types.end(), name) != types.end()); };
    const size_t before = ways.size();
    if (has("object")) ways.push_back(object(i, s));
    if (has("array")) ways.push_back(array(i, s));
    const size_t simple = types.is_array() ? types.size() : types.is_null() ? 0 : 1;
    if (types.is_null() || simple > ways.size() - before) ways.emplace_back();
  }

  Way object(size_t i, const Json& s) {
    const Json required = s.value("required", Json::array());
    Way way;
    way.at_least = s.value("minProperties", size_t{0});
    if (s.contains("properties")) {
      for (const auto& [name, schema] : s["properties"].items()) {
        const bool must = std::find(required.begin(), required.end(), Json(name)) != required.end();
        if (schema.is_object()) child(i, schema, "properties." + name.substr(0, 60), must ? way.all : way.some);
        if (must || !schema.is_object()) way.at_least -= std::min<size_t>(way.at_least, 1);
      }
      return way;
    }
    if (s.contains("patternProperties"))
      for (const auto& [pattern, schema] : s["patternProperties"].items()) child(i, schema, "patternProperties." + pattern.substr(0, 60), way.some);
    const Json& rest = s.contains("additionalProperties") ? s["additionalProperties"] : kAnything;
    child(i, rest, "additionalProperties", way.some);
    if (rest == true) way.at_least = 0;
    return way;
  }

  Way array(size_t i, const Json& s) {
    Way way;
    const size_t least = s.value("minItems", size_t{0});
    const size_t described = s.contains("prefixItems") ? s["prefixItems"].size() : 0;
    for (size_t k = 0; k < described; ++k) child(i, s["prefixItems"][k], fmt::format("prefixItems[{}]", k), k < least ? way.all : way.some);
    for (const char* rest : {"items", "unevaluatedItems"}) {
      if (!s.contains(rest)) continue;
      child(i, s[rest], rest, least > described ? way.all : way.some);
      break;
    }
    return way;
  }

  bool open(const Way& way) const {
    const auto ends = [&](size_t k) { return nodes_[k].finite; };
    return std::all_of(way.all.begin(), way.all.end(), ends) && (way.at_least == 0 || size_t(std::count_if(way.some.begin(), way.some.end(), ends)) >= way.at_least);
  }

  // From the schemas that end by themselves to those that need them.
  void settle() {
    std::vector<size_t> todo(nodes_.size());
    for (size_t i = 0; i < todo.size(); ++i) todo[i] = i;
    while (!todo.empty()) {
      Node& n = nodes_[todo.back()];
      todo.pop_back();
      if (n.finite || !std::any_of(n.ways.begin(), n.ways.end(), [&](const Way& way) { return open(way); })) continue;
      n.finite = true;
      todo.insert(todo.end(), n.needed_by.begin(), n.needed_by.end());
    }
  }

  inline static const Json kAnything = true;
  const Json& root_;
  std::vector<Node> nodes_;
  std::unordered_map<const Json*, size_t> index_;
};

}  // namespace

Result<void> check_finite(const Json& checked, const std::string& at) {
  const Graph graph(checked, at);
  const Node* n = graph.endless();
  if (n == nullptr) return {};
  const bool reference = n->schema->contains("$ref");
  const std::string what = reference ? "'" + (*n->schema)["$ref"].get<std::string>().substr(0, 60) + "'" : "the schema";
  return fail(Code::invalid_argument, what + " has no value that ends: each holds a further one", reference ? n->path + ".$ref" : n->path,
              "let it end, for example with a property that is not required, or another choice");
}

}  // namespace isotope::text
