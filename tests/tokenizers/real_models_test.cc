// The vocabularies of real GGUF files against the published tokenizers (real/ is made by make_real_goldens.py). Skipped where the files are absent.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/models.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "weights/checkpoint.h"

namespace isotope::text {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

class RealModel : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto path = test::cached_model(GetParam());
    if (path.empty()) GTEST_SKIP() << "run scripts/fetch-model " << GetParam();
    auto files = weights::open_checkpoint(path, levers::Loading{});
    ASSERT_TRUE(files) << files.error().message();
    files_ = std::move(*files);
    auto made = Tokenizer::create(files_->vocab());
    ASSERT_TRUE(made) << made.error().message();
    tok_ = std::move(*made);
    std::ifstream in(std::string(ISOTOPE_SOURCE_DIR "/tests/tokenizers/real/") + GetParam() + ".json");
    std::stringstream text;
    text << in.rdbuf();
    rows_ = json::parse(text.str())["rows"];
  }
  std::unique_ptr<weights::Checkpoint> files_;
  std::unique_ptr<Tokenizer> tok_;
  json rows_;
};

TEST_P(RealModel, EncodesIdForId) {
  for (const json& row : rows_) {
    const std::string text = row["text"];
    const Ids ids = row["ids"].get<Ids>();
    EXPECT_EQ(tok_->encode(text, true, true), ids) << row["text"];
    if (row.contains("plain")) EXPECT_EQ(tok_->encode(text, false, false), row["plain"].get<Ids>()) << row["text"];
  }
}

TEST_P(RealModel, DecodesAndStreams) {
  for (const json& row : rows_) {
    const Ids ids = row["ids"].get<Ids>();
    const std::string want = row.value("dec", row["text"].get<std::string>());
    EXPECT_EQ(tok_->decode(tok_->encode(row["text"].get<std::string>(), false, true), false), want);
    Detokenizer stream(*tok_, true);
    std::string text;
    for (const int32_t id : ids) text += stream.add(id);
    EXPECT_EQ(text + stream.finish(), tok_->decode(ids, true));
  }
}

TEST_P(RealModel, NamesItsSpecialTokens) {
  EXPECT_EQ(tok_->bos_id(), files_->vocab().bos_id);
  EXPECT_EQ(tok_->eos_id(), files_->vocab().eos_id);
  EXPECT_TRUE(tok_->is_special(tok_->bos_id()));
  const std::string_view end = std::string(GetParam()) == "gemma3-270m" ? "<end_of_turn>" : "<|im_end|>";
  EXPECT_TRUE(std::ranges::count(tok_->eog_ids(), tok_->token_id(end))) << end;
}

INSTANTIATE_TEST_SUITE_P(Models, RealModel, testing::Values("smollm2-135m", "gemma3-270m"),
                         [](const auto& i) { return std::string(i.param).substr(0, std::string(i.param).find('-')); });

}  // namespace
}  // namespace isotope::text
