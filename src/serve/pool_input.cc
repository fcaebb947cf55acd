#include "serve/pool_input.h"

#include <fmt/format.h>

namespace isotope::serve {

Api<PoolReader> PoolReader::create(const Fields& f, Frontend& front) {
  auto info = front.engine().pooling();
  if (!info) {
    return tl::unexpected(Error{Code::unsupported, "the model '" + front.engine().info().name + "' makes no embeddings and no scores", "model",
                                "serve an embedding model or a cross-encoder"});
  }
  PoolReader r(front, *std::move(info));
  r.frame_ = frame_of(front.tokenizer());
  ISO_TRY(const auto special, f.boolean("add_special_tokens"));
  r.add_special_ = special.value_or(true);
  ISO_TRY(const auto cut, f.integer("truncate_prompt_tokens", -1, r.info_.max_tokens));
  if (cut == 0) return tl::unexpected(field_error("truncate_prompt_tokens", "truncate_prompt_tokens is 0", "give -1 for what the model reads, or at least 1"));
  if (cut) r.most_ = size_t(*cut < 0 ? r.info_.max_tokens : *cut);
  return r;
}

Api<PoolInput> PoolReader::counted(PoolInput in, const std::string& at) {
  const int64_t n = int64_t(in.tokens.size());
  if (n == 0) return tl::unexpected(field_error(at, "the input has no tokens", "send a text, or at least one token id"));
  if (n > info_.max_tokens) {
    return tl::unexpected(ApiError(field_error(at, fmt::format("the input has {} tokens, the model reads at most {}", n, info_.max_tokens),
                                               "shorten it, or send truncate_prompt_tokens: -1"),
                                   Json{{"n_prompt_tokens", n}, {"n_ctx", info_.max_tokens}}));
  }
  tokens_ += n;
  return in;
}

Api<PoolInput> PoolReader::text(const std::string& text, const std::string& at) {
  std::vector<int32_t> ids = front_->tokenizer().encode(text, add_special_, true);
  if (!most_ || ids.size() <= *most_) return counted({.tokens = std::move(ids)}, at);
  // As `transformers` cuts: the text gives way, what stands around it stays.
  ids = front_->tokenizer().encode(text, false, true);
  const TextFrame frame = add_special_ ? frame_ : TextFrame{};
  ids.resize(std::min(ids.size(), *most_ - std::min(*most_, frame.size())));
  ids.insert(ids.begin(), frame.before.begin(), frame.before.end());
  ids.insert(ids.end(), frame.after.begin(), frame.after.end());
  return counted({.tokens = std::move(ids)}, at);
}

Api<PoolInput> PoolReader::ids(std::vector<int32_t> ids, const std::string& at) {
  if (most_ && ids.size() > *most_) ids.resize(*most_);
  return counted({.tokens = std::move(ids)}, at);
}

Api<PoolInput> PoolReader::pair(const std::string& first, const std::string& second, const std::string& at) {
  ISO_TRY(const PairTemplate* pairs, front_->pairs());
  auto a = front_->tokenizer().encode(first, false, true), b = front_->tokenizer().encode(second, false, true);
  if (most_) {
    size_t na = a.size(), nb = b.size();
    fit_pair(na, nb, *most_ - std::min(*most_, pairs->added()));
    a.resize(na), b.resize(nb);
  }
  return counted(pairs->join(a, b), at);
}

}  // namespace isotope::serve
