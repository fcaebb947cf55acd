// The keywords that docs/structured-output.md lists are the ones that the code knows, and each that is refused is refused by its name.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "case_file.h"
#include "joined.h"
#include "test_server.h"
#include "text/grammar/schema.h"

namespace isotope::test {
namespace {

using serve::Json;

/// Words in `code` of the row of the page's table that begins with this.
std::set<std::string> documented(const std::string& row) {
  std::ifstream page(ISOTOPE_SOURCE_DIR "/docs/structured-output.md");
  std::set<std::string> out;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| " + row + " |")) continue;
    const std::regex word("`([^`]+)`");
    for (std::sregex_iterator it(line.begin(), line.end(), word), end; it != end; ++it) out.insert((*it)[1]);
  }
  return out;
}

std::set<std::string> known(const std::vector<std::string_view>& names) { return {names.begin(), names.end()}; }

TEST(SchemaKeywords, ThePageListsWhatTheCodeKnows) {
  EXPECT_EQ(documented("held"), known(text::held_keywords()));
  EXPECT_EQ(documented("refused"), known(text::refused_keywords()));
}

TEST(SchemaKeywords, EachOfTheRefusedIsRefusedByName) {
  TestServer server;
  for (const std::string& name : documented("refused")) {
    const Json schema = {{"type", "object"}, {"properties", {{"a", {{name, Json::object()}}}}}};
    const Json body = {{"prompt", "x"}, {"max_tokens", 1}, {"structured_outputs", {{"json", schema}}}};
    const Json error = answer_json(HttpClient::fetch(server.port(), "POST", "/v1/completions", serve::dump(body)))["error"];
    EXPECT_EQ(error["code"], 400) << name;
    EXPECT_EQ(error["param"], "structured_outputs.json.properties.a." + name) << name;
    EXPECT_TRUE(error["message"].get<std::string>().starts_with("the keyword '" + name + "'")) << error["message"];
  }
}

}  // namespace
}  // namespace isotope::test
