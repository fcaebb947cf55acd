// The parts of a tokenizer and the tokenizer that runs them: added tokens, normalizer, pre-tokenizer, model, post-processor, decoder.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "text/added_tokens.h"
#include "text/model.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/segments.h"
#include "text/tokenizer.h"

namespace isotope::text {

/// One item of a post-processor: the text's ids, or fixed ids.
struct TemplateItem {
  bool sequence = false;
  std::vector<int32_t> ids;
};
/// Templates are applied one after another, the first to the text's ids. Empty: nothing is added.
using PostProcessor = std::vector<std::vector<TemplateItem>>;

struct Parts {
  std::unique_ptr<Vocab> vocab = std::make_unique<Vocab>();   ///< the model's
  std::unique_ptr<Vocab> extra = std::make_unique<Vocab>();   ///< added tokens
  std::vector<AddedToken> added;
  std::unique_ptr<Normalizer> normalizer;                     ///< may be null
  PreSteps pre_steps;
  std::unique_ptr<Model> model;
  PostProcessor post;
  std::vector<DecoderStep> decoder;
  std::vector<bool> hidden;                                   ///< further ids that skip_special drops (GGUF control and unknown tokens)
  int32_t bos_id = -1, eos_id = -1;
  std::vector<int32_t> eog_ids;
};

class Pipeline final : public Tokenizer, private SegmentedEncoder {
 public:
  explicit Pipeline(Parts parts);
  ~Pipeline() override;

  std::vector<int32_t> encode(std::string_view text, bool add_special, bool parse_special) const override;
  std::vector<int32_t> encode_pieces(std::span<const Piece> pieces, bool add_special) const override;
  Result<std::vector<int32_t>> try_encode(std::span<const Piece> pieces, bool add_special) const override;
  std::string token_bytes(int32_t id) const override;
  std::string_view token_text(int32_t id) const override;
  int32_t token_id(std::string_view text) const override;
  bool is_special(int32_t id) const override { return id >= 0 && size_t(id) < special_.size() && special_[size_t(id)]; }
  std::optional<std::string> decoder_text(int32_t id, bool skip_special) const override;
  int64_t size() const override { return std::max(parts_.vocab->size(), parts_.extra->size()); }
  int32_t bos_id() const override { return parts_.bos_id; }
  int32_t eos_id() const override { return parts_.eos_id; }
  bool adds_bos() const override { return adds_bos_; }
  std::vector<int32_t> eog_ids() const override { return parts_.eog_ids; }
  const std::vector<DecoderStep>& decoder() const override { return parts_.decoder; }
  /// Only added tokens that are looked for before normalization cut a text.
  const SegmentedEncoder* segments() const override { return added_.longest_raw() > 0 ? this : nullptr; }

 private:
  void cut(std::string_view text, const SpecialZones& zones, CutPoint from, std::vector<AddedTokens::Part>& out) const override {
    added_.split(text, false, zones, out, from);
  }
  int32_t added_id(const AddedTokens::Part& part) const override { return added_.tokens()[size_t(part.token)].id; }
  Result<void> encode_segment(std::string_view text, Span segment, const SpecialZones&, std::vector<int32_t>& out) const override;
  size_t look_ahead() const override { return added_.longest_raw() + 4; }  // and the character behind it
  std::vector<int32_t> add_special(std::vector<int32_t> ids) const override { return post_process(std::move(ids)); }

  struct Work;
  class Lease;
  void encode_text(std::string_view text, const SpecialZones& zones, Work&) const;
  void encode_segment(std::string_view segment, size_t offset, const SpecialZones& zones, Work&) const;
  void encode_words(std::string_view text, bool at_start, Work&) const;
  SpecialZones normalized_zones(std::string_view segment, size_t offset, std::string_view normalized, const SpecialZones& zones, Work&) const;
  std::vector<int32_t> post_process(std::vector<int32_t> ids) const;
  std::pair<std::vector<int32_t>, std::string> run(std::string_view text, const SpecialZones& zones, bool add_special) const;

  Parts parts_;
  AddedTokens added_;
  std::vector<bool> special_;
  std::vector<bool> skipped_;                            ///< ids that skip_special drops
  /// Texts of added tokens that normalization changes. The library decodes those in their normalized form, and then no longer knows them as special.
  std::unordered_map<int32_t, std::string> normalized_;
  bool adds_bos_ = false;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Work>> idle_;
};

}  // namespace isotope::text
