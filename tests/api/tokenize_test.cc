// The tokenize cache of the front end: the setting decides whether there is one, and never the ids.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "serve/frontend.h"
#include "support/fake_engine.h"

namespace isotope::test {
namespace {

std::unique_ptr<text::Tokenizer> qwen2() {
  std::ifstream in(ISOTOPE_SOURCE_DIR "/tests/tokenizers/golden/qwen2/tokenizer.json", std::ios::binary);
  VocabSource source;
  source.tokenizer_json.assign(std::istreambuf_iterator<char>(in), {});
  auto made = text::Tokenizer::create(source);
  EXPECT_TRUE(made);
  return std::move(*made);
}

std::string turns(int n) {
  std::string out;
  for (int i = 0; i < n; i++) out += "<|im_start|>user\nQuestion " + std::to_string(i) + "<|im_end|>\n<|im_start|>assistant\nAnswer.<|im_end|>\n";
  return out;
}

double value(const std::string& metrics, const std::string& name) {
  const size_t at = metrics.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stod(metrics.substr(at + name.size() + 2));
}

TEST(TokenizeCacheSetting, ChangesTheCountersAndNeverTheIds) {
  FakeEngine engine;
  const auto with = *serve::Frontend::create(engine, qwen2(), {.tokenize_cache_bytes = 16 << 20});
  const auto without = *serve::Frontend::create(engine, qwen2(), {.tokenize_cache_bytes = 0});
  for (int n : {2500, 2501, 2502}) EXPECT_EQ(with->text_ids(turns(n), true, true), without->text_ids(turns(n), true, true));
  EXPECT_EQ(with->text_ids(turns(3), true, true), without->text_ids(turns(3), true, true));
  const std::string on = with->tokenize_metrics(), off = without->tokenize_metrics();
  EXPECT_EQ(value(on, "isotope:tokenize_cache_prompt_hits_total"), 2);
  EXPECT_GT(value(on, "isotope:tokenize_cache_segment_hits_total"), 0);
  EXPECT_EQ(value(on, "isotope:tokenize_cache_bypassed_total"), 1);
  EXPECT_EQ(value(on, "isotope:tokenize_cache_checked_total"), 3);
  EXPECT_EQ(value(on, "isotope:tokenize_cache_disabled_total"), 0);
  EXPECT_GT(value(on, "isotope:tokenize_cache_bytes"), 100'000);
  EXPECT_EQ(value(on, "isotope:tokenize_cache_budget_bytes"), 16 << 20);
  EXPECT_EQ(value(off, "isotope:tokenize_cache_misses_total"), -1);
  for (const std::string& m : {on, off}) EXPECT_EQ(value(m, "atom:api_tokenize_seconds_count"), 4);
}

}  // namespace
}  // namespace isotope::test
