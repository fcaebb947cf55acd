// The dependency table of docs/architecture.md, checked against every #include in src/.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

/// What the table in docs/architecture.md §2 allows; a folder may always include itself and the public headers, and what its own row's folders may include.
const std::map<std::string, Names> kMayInclude = {
    {"base", {}},
    {"telemetry", {"base"}},
    {"levers", {"base"}},
    {"tensor", {"base"}},
    {"kernels", {"tensor"}},
    {"comm", {"tensor", "levers", "telemetry"}},
    {"ops", {"kernels", "comm", "tensor", "levers", "telemetry"}},
    {"weights", {"tensor", "ops", "levers"}},
    {"models", {"ops", "weights"}},
    {"kv", {"tensor", "levers", "telemetry"}},
    {"sched", {"kv", "levers", "telemetry"}},
    {"spec", {"models", "ops", "sample", "kv", "levers"}},
    {"sample", {"ops", "levers"}},
    {"transfer", {"kv", "comm", "levers", "telemetry"}},
    {"debug", {"ops", "models", "kv"}},
    {"text", {"base", "levers"}},
    {"engine", {"sched", "kv", "models", "sample", "spec", "transfer", "debug", "ops", "weights", "levers", "telemetry"}},
    {"serve", {"engine", "text", "levers", "telemetry"}},
    {"capi", {}},
};

Names closure(const std::string& folder) {
  Names all{folder};
  for (const std::string& f : kMayInclude.at(folder)) all.merge(closure(f));
  return all;
}

TEST(Layers, IncludesPointDownOnly) {
  const fs::path src = fs::path(ISOTOPE_SOURCE_DIR) / "src";
  int files = 0;
  for (const auto& e : fs::recursive_directory_iterator(src)) {
    const std::string name = fs::relative(e.path(), src).string();
    const std::string ext = e.path().extension();
    if ((ext != ".h" && ext != ".cc" && ext != ".inl") || name.ends_with("_test.cc")) continue;
    ++files;
    const std::string folder = name.substr(0, name.find('/'));
    ASSERT_TRUE(kMayInclude.contains(folder)) << "src/" << folder << " has no row in the table";
    const Names allowed = closure(folder);
    std::ifstream in(e.path());
    for (std::string line; std::getline(in, line);) {
      if (!line.starts_with("#include \"")) continue;
      const std::string target = line.substr(10, line.find('"', 10) - 10);
      if (target.starts_with("isotope/")) continue;
      EXPECT_TRUE(allowed.contains(target.substr(0, target.find('/')))) << "src/" << name << " includes " << target;
    }
  }
  EXPECT_GT(files, 20);
}

TEST(Layers, PublicHeadersIncludeNothingPrivate) {
  for (const auto& e : fs::recursive_directory_iterator(fs::path(ISOTOPE_SOURCE_DIR) / "include")) {
    std::ifstream in(e.path());
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("#include \"")) EXPECT_TRUE(line.starts_with("#include \"isotope/")) << e.path() << ": " << line;
  }
}

}  // namespace
