#include "goldens.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "text/chat_template.h"

namespace isotope::templates {
namespace {

using nlohmann::ordered_json;
constexpr int64_t kNow = 1753542245;  // 2025-07-26 15:04:05, a Saturday

std::string read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

ordered_json read_json(const std::string& file) { return ordered_json::parse(read(file)); }

// The one message of an error, as the reference words it.
std::string render(const std::string& source, const text::ChatTemplate::Input& in, bool& failed) {
  const auto parsed = text::ChatTemplate::parse(source);
  const Result<std::string> out = parsed ? (*parsed)->render(in) : tl::unexpected(parsed.error());
  failed = !out;
  return out ? *out : out.error().what;
}

// Pieces must join to the same text.
bool pieces_agree(const std::string& source, const text::ChatTemplate::Input& in, const std::string& whole) {
  const auto parsed = text::ChatTemplate::parse(source);
  const auto pieces = (*parsed)->render_pieces(in);
  std::string joined;
  if (pieces)
    for (const auto& p : *pieces) joined += p.text;
  return pieces && joined == whole;
}

void compare(Report& r, const std::string& name, const std::string& source, const text::ChatTemplate::Input& in,
             const ordered_json& want) {
  ++r.renders;
  bool failed = false;
  const std::string got = render(source, in, failed);
  const bool want_error = want.contains("error");
  r.errors += want_error;
  const std::string expected = want[want_error ? "msg" : "out"].get<std::string>();
  if (failed != want_error || (got.substr(0, 200) != expected.substr(0, 200) && want_error && want.value("exact", true)) ||
      (!want_error && got != expected))
    r.differences.push_back(name + "\n  got  " + (failed ? "error " : "") + ordered_json(got).dump() + "\n  want " +
                            (want_error ? "error " : "") + ordered_json(expected).dump());
  else if (!failed && !pieces_agree(source, in, got))
    r.differences.push_back(name + ": the pieces do not join to the text");
}

text::ChatTemplate::Input basic_input() {
  text::ChatTemplate::Input in;
  in.now = kNow;
  return in;
}

}  // namespace

Report compare_templates(const std::string& goldens, const std::string& templates) {
  Report r;
  const ordered_json cases = read_json(goldens + "/cases.json");
  for (const auto& file : std::filesystem::directory_iterator(goldens)) {
    const std::string name = file.path().stem().string();
    const std::string source_file = templates + "/" + name + ".jinja";
    if (!std::filesystem::exists(source_file)) continue;
    const std::string source = read(source_file);
    for (const ordered_json& g : read_json(file.path().string())) {
      text::ChatTemplate::Input in = basic_input();
      in.messages = cases["cases"][g["case"].get<std::string>()];
      const std::string tools = g.contains("tools") && g["tools"].is_string() ? g["tools"].get<std::string>() : "none";
      in.tools = tools == "all" ? cases["tools"] : tools == "empty" ? ordered_json::array() : ordered_json();
      in.extra = g.value("kwargs", ordered_json::object());
      in.special_tokens = cases["special_tokens"];
      in.add_generation_prompt = g.value("add_generation_prompt", false);
      compare(r,
              name + " / " + g["case"].get<std::string>() + " / tools " + tools + " / " + in.extra.dump() +
                  (in.add_generation_prompt ? " / generate" : ""),
              source, in, g);
    }
  }
  return r;
}

Report compare_expressions(const std::string& file, const std::string& cases_file) {
  Report r;
  const ordered_json cases = read_json(cases_file);
  for (const ordered_json& g : read_json(file)) {
    text::ChatTemplate::Input in = basic_input();
    in.messages = cases["cases"]["multi"];
    in.tools = cases["tools"];
    in.add_generation_prompt = false;
    const std::string source = g["src"].get<std::string>();
    compare(r, source, source, in, g);
  }
  return r;
}

}  // namespace isotope::templates
