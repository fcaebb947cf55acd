// Pieces of a rendered template: content never becomes a control token, everything else is as in one text.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "golden_files.h"
#include "text/unicode.h"

namespace isotope::text {
namespace {

using Ids = std::vector<int32_t>;
using Piece = Tokenizer::Piece;

class Pieces : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    tok_ = golden::load(GetParam());
    ASSERT_TRUE(tok_);
    strings_ = nlohmann::json::parse(golden::read(golden::kFolder / "strings.json")).get<std::vector<std::string>>();
  }
  static std::string joined(const std::vector<Piece>& pieces) {
    std::string out;
    for (const Piece& p : pieces) out += p.text;
    return out;
  }
  size_t specials(const Ids& ids) const {
    return size_t(std::ranges::count_if(ids, [&](int32_t id) { return tok_->is_special(id); }));
  }
  std::unique_ptr<Tokenizer> tok_;
  std::vector<std::string> strings_;
};

/// Cuts a text at random character borders.
std::vector<Piece> cut(const std::string& text, std::mt19937& random, bool special) {
  std::vector<Piece> out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    do end += char_length(text[end]);
    while (end < text.size() && random() % 4);
    out.push_back({text.substr(at, end - at), special});
    at = end;
  }
  return out;
}

TEST_P(Pieces, TemplateTextIsOneText) {
  std::mt19937 random(1);
  for (const std::string& s : strings_) EXPECT_EQ(tok_->encode_pieces(cut(s, random, true), true), tok_->encode(s, true, true)) << s;
}

TEST_P(Pieces, ContentIsOneTextWithoutControlTokens) {
  std::mt19937 random(2);
  for (const std::string& s : strings_) {
    const Ids plain = tok_->encode(s, false, false);
    EXPECT_EQ(tok_->encode_pieces(cut(s, random, false), false), plain) << s;
    for (const int32_t id : plain) EXPECT_FALSE(tok_->is_special(id) && count_chars(tok_->token_text(id)) > 1 && tok_->token_text(id) != "<unk>" && tok_->token_text(id) != "[UNK]") << s;
  }
}

TEST_P(Pieces, MixedPiecesWithoutControlTextAreOneText) {
  std::mt19937 random(3);
  for (const std::string& s : strings_) {
    if (specials(tok_->encode(s, false, true)) > 0) continue;
    std::vector<Piece> pieces = cut(s, random, true);
    for (Piece& p : pieces) p.special = random() % 2;
    EXPECT_EQ(tok_->encode_pieces(pieces, true), tok_->encode(s, true, true)) << s;
  }
}

/// Text of a control token in content, alone and put together with the template around it.
TEST_P(Pieces, ForgedTurnsStayText) {
  for (int64_t i = 0; i < tok_->size(); i++) {
    const auto id = int32_t(i);
    const std::string name(tok_->token_text(id));
    if (!tok_->is_special(id) || count_chars(name) < 2) continue;
    if (std::ranges::count(tok_->encode("x" + name + "y", false, true), id) == 0) continue;  // normalization changes its text
    const auto count = [&](const std::vector<Piece>& pieces) { return std::ranges::count(tok_->encode_pieces(pieces, false), id); };
    EXPECT_EQ(count({{"a ", true}, {"x" + name + "y", false}, {" b", true}}), 0) << name;
    EXPECT_EQ(count({{"a " + name, true}, {"x" + name + "y", false}, {name + " b", true}}), 2) << name;
    for (size_t at = 1; at < name.size(); at++) {
      if ((uint8_t(name[at]) & 0xC0) == 0x80) continue;
      EXPECT_EQ(count({{name.substr(0, at), true}, {name.substr(at), false}}), 0) << name;
      EXPECT_EQ(count({{name.substr(0, at), false}, {name.substr(at), true}}), 0) << name;
      EXPECT_EQ(count({{name.substr(0, at), false}, {name, true}, {name.substr(at), false}}), 1) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Pieces, testing::ValuesIn(golden::names()), [](const auto& i) { return i.param; });

std::unique_ptr<Tokenizer> with_tokens(std::vector<std::string> contents) {
  nlohmann::json j = nlohmann::json::parse(golden::read(golden::kFolder / "gpt2/tokenizer.json"));
  for (const std::string& c : contents)
    j["added_tokens"].push_back({{"id", 0}, {"content", c}, {"single_word", false}, {"lstrip", false}, {"rstrip", false}, {"normalized", false}, {"special", true}});
  VocabSource source;
  source.tokenizer_json = j.dump();
  auto made = Tokenizer::create(source);
  EXPECT_TRUE(made);
  return made ? std::move(*made) : nullptr;
}

/// Content may not spoil a control token of the template by completing a longer one with it.
TEST(PieceBorders, ContentCannotExtendATemplateToken) {
  const auto tok = with_tokens({"<t>", "<t>>"});
  ASSERT_TRUE(tok);
  const int32_t id = tok->token_id("<t>");
  EXPECT_EQ(tok->encode_pieces(std::vector<Piece>{{"<t>", true}, {">", false}}, false), (Ids{id, tok->token_id(">")}));
  EXPECT_EQ(tok->encode_pieces(std::vector<Piece>{{"<t>>", true}}, false), Ids{tok->token_id("<t>>")});
}

TEST(PieceBorders, BrokenUtf8IsRepairedPieceByPiece) {
  const auto tok = with_tokens({"<t>"});
  ASSERT_TRUE(tok);
  EXPECT_EQ(tok->encode_pieces(std::vector<Piece>{{"\xE4", true}, {"\xBD\xA0", false}}, false), tok->encode("你", false, true));
  EXPECT_EQ(tok->encode_pieces(std::vector<Piece>{{"<t>\xE4", true}, {"<t>", false}}, false), tok->encode_pieces(std::vector<Piece>{{"<t>\uFFFD", true}, {"<t>", false}}, false));
  EXPECT_EQ(tok->encode("a\xED\xA0\x80", false, true), tok->encode("a\uFFFD", false, true));
}

}  // namespace
}  // namespace isotope::text
