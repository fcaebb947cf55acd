#include "models/direct.h"

#include <fmt/format.h>

#include <algorithm>

namespace isotope::models {

Result<Direct> Direct::create(const Model& m, ops::Ops& o, const DirectOptions& options) {
  if (options.max_len < 1 || options.sequences < 1 || options.block_size < 1)
    return fail(Code::invalid_argument, fmt::format("{} sequences of {} tokens in blocks of {}", options.sequences, options.max_len, options.block_size),
                "direct run", "ask for at least one of each");
  Direct d(m, o, options);
  d.blocks_ = (options.max_len + options.block_size - 1) / options.block_size;
  d.length_.assign(size_t(options.sequences), 0);
  d.draft_length_.assign(size_t(m.draft_heads()), d.length_);
  d.last_.assign(size_t(options.sequences), std::vector<int32_t>(size_t(m.lookback()), -1));
  std::vector<int64_t> blocks;
  for (const ops::KvGroupSpec& g : m.kv_groups())
    blocks.push_back(g.kind == ops::KvGroupSpec::Kind::state ? options.sequences : d.blocks_ * options.sequences);
  ISO_TRY(d.kv_, o.make_kv(m.kv_layers(), blocks, options.block_size, options.kv));
  return d;
}

Result<void> Direct::check(std::span<const Chunk> chunks, const Lengths& lengths) const {
  const int64_t vocab = model_->config().vocab;
  for (const Chunk& c : chunks) {
    for (int32_t t : c.tokens)
      if (t < 0 || t >= vocab) return fail(Code::invalid_argument, fmt::format("token id {} is not in the vocabulary of {} (0 to {})", t, vocab, vocab - 1), "token ids",
                                           "give ids that the model's tokenizer makes");
    const int64_t length = lengths[size_t(c.sequence)] + int64_t(c.tokens.size());
    if (length > options_.max_len) return fail(Code::invalid_argument, fmt::format("{} tokens, there is room for {}", length, options_.max_len), "token ids", "shorten the prompt");
  }
  return {};
}

int32_t Direct::block_of(int sequence, int64_t index) const {
  const int64_t total = blocks_ * options_.sequences, plain = sequence * blocks_ + index;
  // 7919 is prime and no divisor of a pool this small, so that the walk visits every block once.
  return int32_t(options_.scatter && total % 7919 ? (plain * 7919 + 3) % total : plain);
}

template <class Run>
auto Direct::run(std::span<const Chunk> chunks, Lengths& lengths, Run run) -> Result<decltype(run(std::declval<const ops::Batch&>()))> {
  ISO_CHECK_OK(check(chunks, lengths));
  std::vector<int32_t> tokens, positions, query_start{0}, context_len, logit_rows, slots, before;
  const bool trunk = &lengths == &length_;
  for (const Chunk& c : chunks) {
    std::vector<int32_t>& last = last_[size_t(c.sequence)];
    before.insert(before.end(), last.begin(), last.end());
    if (trunk) {
      last.insert(last.end(), c.tokens.begin(), c.tokens.end());
      last.erase(last.begin(), last.end() - model_->lookback());
    }
    int64_t& length = lengths[size_t(c.sequence)];
    for (int32_t t : c.tokens) {
      if (c.all_logits) logit_rows.push_back(int32_t(tokens.size()));
      tokens.push_back(t);
      positions.push_back(int32_t(length));
      slots.push_back(block_of(c.sequence, length / options_.block_size) * options_.block_size + int32_t(length % options_.block_size));
      ++length;
    }
    if (!c.all_logits && !c.no_logits && !c.tokens.empty()) logit_rows.push_back(int32_t(tokens.size()) - 1);
    query_start.push_back(int32_t(tokens.size()));
    context_len.push_back(int32_t(length));
  }

  std::vector<std::vector<int32_t>> tables(model_->kv_groups().size());
  std::vector<ops::Batch::Group> groups;
  for (size_t g = 0; g < tables.size(); ++g) {
    if (model_->kv_groups()[g].kind == ops::KvGroupSpec::Kind::state) {  // the slot of a sequence is its number
      for (const Chunk& c : chunks) tables[g].push_back(options_.scatter ? options_.sequences - 1 - c.sequence : c.sequence);
      groups.push_back({tables[g].data(), 1, {}});
      continue;
    }
    const int64_t window = model_->kv_groups()[g].window;
    for (size_t s = 0; s < chunks.size(); ++s) {
      // The first query of the chunk sees furthest back.
      const int64_t first = context_len[s] - int64_t(chunks[s].tokens.size());
      const int64_t seen_from = window ? std::max<int64_t>(0, first - window + 1) : 0;
      for (int64_t i = 0; i < blocks_; ++i) {
        const bool freed = options_.forget && (i + 1) * options_.block_size <= seen_from;
        tables[g].push_back(freed ? -1 : block_of(chunks[s].sequence, i));
      }
    }
    groups.push_back({tables[g].data(), blocks_, slots});
  }

  const ops::Batch batch{tokens, positions, query_start, context_len, logit_rows, groups, before, model_->lookback()};
  ops_->begin(batch, kv_.get());
  return run(batch);
}

Result<ops::Tensor> Direct::step(std::span<const Chunk> chunks, const HiddenTap* tap) {
  ISO_TRY(const ops::Tensor out, run(chunks, length_, [&](const ops::Batch& b) { return model_->forward(*ops_, b, tap); }));
  ISO_CHECK_OK(model_->intact());
  return out;
}

Result<ops::Tensor> Direct::step_for_drafts(std::span<const Chunk> chunks, ops::Tensor& hidden) {
  return run(chunks, length_, [&](const ops::Batch& b) { return model_->forward_for_drafts(*ops_, b, hidden); });
}

Result<DraftResult> Direct::draft(std::span<const Chunk> chunks, const DraftStep& step) {
  if (step.head < 0 || step.head >= model_->draft_heads())
    return fail(Code::invalid_argument, fmt::format("multi-token-prediction head {} of {}", step.head, model_->draft_heads()), "direct run",
                "choose one that the model has");
  return run(chunks, draft_length_[size_t(step.head)], [&](const ops::Batch& b) { return model_->draft(*ops_, b, step); });
}

int32_t argmax(std::span<const float> v) { return int32_t(std::max_element(v.begin(), v.end()) - v.begin()); }

}  // namespace isotope::models
