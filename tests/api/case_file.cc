#include "case_file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>

namespace isotope::test {

using serve::dump;
using serve::Json;

namespace {

std::string generated_body(const std::string& line) {
  if (line.starts_with("@nested ")) {
    const size_t n = size_t(std::atoll(line.c_str() + 8)), space = line.find(' ', 8);
    const std::string field = space == std::string::npos ? "x" : line.substr(space + 1);
    return "{\"" + field + "\": " + std::string(n, '[') + std::string(n, ']') + "}";
  }
  const size_t space = line.find(' ', 8);
  std::string text;
  for (long i = std::atol(line.c_str() + 8); i > 0; --i) text += line.substr(space + 1);
  return dump(Json{{"prompt", text}, {"input", text}, {"messages", Json::array({{{"role", "user"}, {"content", text}}})}});
}

void read_file(const std::filesystem::path& path, std::vector<ApiCase>& out) {
  std::ifstream in(path);
  enum { kNone, kRequest, kBody, kChecks } part = kNone;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("=== ")) {
      out.push_back({.file = path.filename().string(), .name = line.substr(4)});
      part = kRequest;
      continue;
    }
    if (part == kNone || (line.empty() && part != kBody)) continue;
    ApiCase& c = out.back();
    if (line.starts_with("--- ")) {
      c.status = std::atoi(line.c_str() + 4);
      part = kChecks;
    } else if (part == kRequest) {
      const size_t space = line.find(' ');
      c.method = line.substr(0, space);
      c.path = line.substr(space + 1);
      part = kBody;
    } else if (part == kBody && line.starts_with("> ") && c.body.empty()) {
      const size_t colon = line.find(": ");
      c.headers.emplace_back(line.substr(2, colon - 2), line.substr(colon + 2));
    } else if (part == kBody) {
      c.body += line.starts_with("@") ? generated_body(line) : line;
    } else if (line[0] != '#') {
      c.checks.push_back(line);
    }
  }
}

std::string text_of(const Json& v) { return v.is_string() ? v.get<std::string>() : dump(v); }

}  // namespace

std::vector<ApiCase> load_cases(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".case") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<ApiCase> out;
  for (const auto& f : files) read_file(f, out);
  return out;
}

Json answer_json(const HttpReply& reply) {
  const auto type = reply.headers.find("content-type");
  if (type == reply.headers.end() || !type->second.starts_with("text/event-stream")) {
    auto parsed = serve::parse_json(reply.body);
    return parsed ? *std::move(parsed) : Json(reply.body);
  }
  Json out = {{"events", Json::array()}, {"done", false}, {"text", ""}};
  std::string text;
  for (size_t at = 0; at < reply.body.size();) {
    const size_t end = std::min(reply.body.find("\n\n", at), reply.body.size());
    std::string event = reply.body.substr(at, end - at);
    if (event.starts_with("event: ")) event.erase(0, event.find('\n') + 1);
    at = end + 2;
    if (event == "data: [DONE]") out["done"] = true;
    if (!event.starts_with("data: {")) continue;
    auto parsed = serve::parse_json(std::string_view(event).substr(6));
    if (!parsed) return Json("broken event: " + event);
    for (const char* p : {"choices[0].text", "choices[0].delta.content"}) {
      const Json* piece = at_path(*parsed, p);
      const Json* index = at_path(*parsed, "choices[0].index");
      if (piece != nullptr && piece->is_string() && index != nullptr && *index == 0) text += piece->get<std::string>();
    }
    out["events"].push_back(*std::move(parsed));
  }
  out["text"] = text;
  return out;
}

const Json* at_path(const Json& value, std::string_view path) {
  const Json* at = &value;
  while (!path.empty()) {
    if (path[0] == '[') {
      long i = 0;
      const size_t close = path.find(']');
      std::from_chars(path.data() + 1, path.data() + close, i);
      if (!at->is_array()) return nullptr;
      if (i < 0) i += long(at->size());
      if (i < 0 || size_t(i) >= at->size()) return nullptr;
      at = &(*at)[size_t(i)];
      path.remove_prefix(close + 1);
    } else {
      const size_t end = std::min(path.find_first_of(".["), path.size());
      const auto it = at->is_object() ? at->find(std::string(path.substr(0, end))) : at->end();
      if (!at->is_object() || it == at->end()) return nullptr;
      at = &*it;
      path.remove_prefix(end);
    }
    if (!path.empty() && path[0] == '.') path.remove_prefix(1);
  }
  return at;
}

std::string failed_check(const std::string& check, const Json& answer, const HttpReply& reply) {
  if (check.starts_with("! ")) return at_path(answer, check.substr(2)) == nullptr ? "" : check.substr(2) + " is there";
  if (check.starts_with("header ")) {
    const size_t op = check.find(" ~ ");
    const auto it = reply.headers.find(check.substr(7, op - 7));
    if (it == reply.headers.end()) return "no header " + check.substr(7, op - 7);
    return it->second.find(check.substr(op + 3)) != std::string::npos ? "" : "header is " + it->second;
  }
  const size_t space = check.find(' ');
  const std::string path = check.substr(0, space), wanted = check.substr(space + 3);
  const char op = check[space + 1];
  const Json* got = at_path(answer, path == "." ? "" : path);
  if (got == nullptr) return path + " is absent";
  if (op == '~') return text_of(*got).find(wanted) != std::string::npos ? "" : path + " is " + serve::shortened(text_of(*got), 300);
  if (op == '#') return std::to_string(got->size()) == wanted ? "" : path + " has " + std::to_string(got->size()) + " elements";
  const auto value = serve::parse_json("[" + wanted + "]");
  if (!value) return "the check's value is no JSON";
  const Json& v = (*value)[0];
  const bool holds = op == '=' ? *got == v : op == '>' ? *got > v : *got < v;
  return holds ? "" : path + " is " + serve::shortened(dump(*got), 300);
}

}  // namespace isotope::test
