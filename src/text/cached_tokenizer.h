// A tokenizer that remembers long prompts. Its ids are those of the tokenizer it wraps, always.
#pragma once

#include <atomic>
#include <functional>

#include "text/tokenize_cache.h"

namespace isotope::text {

/// Names the request whose prompts this thread encodes, for messages.
class RequestLabel {
 public:
  explicit RequestLabel(std::string_view label);
  ~RequestLabel();
  RequestLabel(const RequestLabel&) = delete;
  RequestLabel& operator=(const RequestLabel&) = delete;
  static std::string_view current();

 private:
  std::string_view before_;
};

struct CachedTokenizerOptions {
  int64_t budget_bytes = 512ll << 20;
  size_t min_characters = 100'000;                     ///< shorter prompts are encoded whole
  int checks = 16;                                     ///< the first so many long prompts are compared with the plain encoder
  int threads = 0;                                     ///< for segments that are missing; 0 = one a core
  std::function<void(const std::string&)> warn;        ///< once, when a comparison fails
};

class CachedTokenizer final : public Tokenizer {
 public:
  /// Wraps `plain` if its texts fall into segments and the budget is not 0; else gives it back as it is.
  static std::unique_ptr<Tokenizer> wrap(std::unique_ptr<Tokenizer> plain, CachedTokenizerOptions);

  std::vector<int32_t> encode(std::string_view text, bool add_special, bool parse_special) const override;
  std::vector<int32_t> encode_pieces(std::span<const Piece> pieces, bool add_special) const override;
  Result<std::vector<int32_t>> try_encode(std::span<const Piece> pieces, bool add_special) const override;
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override { return plain_->decode(ids, skip_special); }
  std::string token_bytes(int32_t id) const override { return plain_->token_bytes(id); }
  std::string_view token_text(int32_t id) const override { return plain_->token_text(id); }
  int32_t token_id(std::string_view text) const override { return plain_->token_id(text); }
  bool is_special(int32_t id) const override { return plain_->is_special(id); }
  int64_t size() const override { return plain_->size(); }
  int32_t bos_id() const override { return plain_->bos_id(); }
  int32_t eos_id() const override { return plain_->eos_id(); }
  bool adds_bos() const override { return plain_->adds_bos(); }
  std::vector<int32_t> eog_ids() const override { return plain_->eog_ids(); }
  const std::vector<DecoderStep>& decoder() const override { return plain_->decoder(); }
  std::optional<std::string> decoder_text(int32_t id, bool skip_special) const override { return plain_->decoder_text(id, skip_special); }

  TokenizeCacheStats stats() const;

 private:
  CachedTokenizer(std::unique_ptr<Tokenizer> plain, CachedTokenizerOptions);
  struct Missing;
  bool bypasses(size_t bytes, const std::function<size_t()>& characters) const;
  template <class F>
  Result<std::vector<int32_t>> run(const JoinedText&, bool add_special, F plain) const;
  Result<std::vector<int32_t>> encode_parts(const JoinedText&) const;
  Result<void> encode_missing(const JoinedText&, std::vector<Missing>&) const;
  void disable(size_t at) const;

  std::unique_ptr<Tokenizer> plain_;
  const SegmentedEncoder& segments_;
  CachedTokenizerOptions options_;
  mutable TokenizeCache cache_;
  mutable std::atomic<int> checks_left_;
  mutable std::atomic<bool> enabled_{true};
  mutable std::atomic<uint64_t> bypassed_{0}, checked_{0};
};

}  // namespace isotope::text
