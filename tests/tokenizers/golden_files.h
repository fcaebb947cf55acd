// The tokenizers under golden/.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace isotope::text::golden {

// scripts/check-long names a folder of freshly made goldens instead of the committed ones.
inline const std::filesystem::path kFolder = [] {
  const char* fresh = std::getenv("ISOTOPE_TOKENIZER_GOLDENS");
  return fresh ? std::filesystem::path(fresh) : std::filesystem::path(ISOTOPE_SOURCE_DIR) / "tests/tokenizers/golden";
}();

inline std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

inline std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& e : std::filesystem::directory_iterator(kFolder))
    if (e.is_directory()) out.push_back(e.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

inline std::unique_ptr<Tokenizer> load(const std::string& name) {
  VocabSource source;
  source.tokenizer_json = read(kFolder / name / "tokenizer.json");
  auto made = Tokenizer::create(source);
  EXPECT_TRUE(made) << made.error().message();
  return made ? std::move(*made) : nullptr;
}

}  // namespace isotope::text::golden
