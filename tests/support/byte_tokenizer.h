// A tokenizer whose ids are bytes, for tests of everything above it: 0–255 are bytes, then four control tokens, then a few words.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace isotope::test {

class ByteTokenizer final : public text::Tokenizer {
 public:
  static constexpr int32_t kBos = 256, kEos = 257, kStart = 258, kEnd = 259, kSize = 262;
  explicit ByteTokenizer(bool has_bos = true) : has_bos_(has_bos) {}

  std::vector<int32_t> encode(std::string_view text, bool add_special, bool parse_special) const override {
    const Piece piece{std::string(text), parse_special};
    return encode_pieces({&piece, 1}, add_special);
  }
  std::vector<int32_t> encode_pieces(std::span<const Piece> pieces, bool add_special) const override {
    std::vector<int32_t> ids;
    if (add_special && has_bos_) ids.push_back(kBos);
    for (const Piece& p : pieces) add(p.text, p.special, ids);
    return ids;
  }
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::string out;
    for (const int32_t id : ids) {
      if (!(skip_special && is_special(id))) out += token_bytes(id);
    }
    return out;
  }
  std::string token_bytes(int32_t id) const override {
    if (id < 0 || id >= kSize) return {};
    return id < 256 ? std::string(1, char(id)) : std::string(kNames[size_t(id - 256)]);
  }
  std::string_view token_text(int32_t id) const override { return id >= 256 && id < kSize ? kNames[size_t(id - 256)] : std::string_view("byte"); }
  int32_t token_id(std::string_view text) const override {
    for (size_t i = 0; i < kNames.size(); ++i) {
      if (kNames[i] == text) return int32_t(256 + i);
    }
    return -1;
  }
  bool is_special(int32_t id) const override { return id >= kBos && id <= kEnd; }
  int64_t size() const override { return kSize; }
  int32_t bos_id() const override { return has_bos_ ? kBos : -1; }
  int32_t eos_id() const override { return kEos; }
  bool adds_bos() const override { return has_bos_; }

 private:
  static constexpr std::array<std::string_view, 6> kNames = {"<s>", "</s>", "<|im_start|>", "<|im_end|>", " the", "tion"};

  void add(std::string_view text, bool special, std::vector<int32_t>& ids) const {
    while (!text.empty()) {
      size_t used = 1;
      int32_t id = static_cast<unsigned char>(text[0]);
      for (int32_t s = kBos; special && s <= kEnd; ++s) {
        const std::string_view name = kNames[size_t(s - 256)];
        if (text.starts_with(name)) id = s, used = name.size();
      }
      ids.push_back(id);
      text.remove_prefix(used);
    }
  }
  bool has_bos_;
};

}  // namespace isotope::test
