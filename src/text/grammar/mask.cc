#include "text/grammar/mask.h"

#include <time.h>

#include <algorithm>
#include <vector>

namespace isotope::text {
namespace {

/// What this thread has computed: a budget in wall time would end answers because the machine is busy or stands still.
int64_t thread_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

class Mask final : public TokenMask {
 public:
  Mask(const xgrammar::CompiledGrammar& compiled, std::shared_ptr<GrammarCounters> counters, const GrammarLimits& limits)
      : matcher_(compiled), counters_(std::move(counters)), sequence_ns_(int64_t(limits.sequence_ms) * 1000000), token_ns_(int64_t(limits.token_ms) * 1000000), bits_(size_t(xgrammar::GetBitmaskSize(compiled.GetTokenizerInfo().GetVocabSize()))) {}

  bool fill(std::span<uint32_t> bits) override {
    if (problem_ == nullptr && !known_) compute();
    if (problem_ != nullptr) {
      std::fill(bits.begin(), bits.end(), 0u);
      return true;
    }
    if (all_) return false;
    const size_t n = std::min(bits.size(), bits_.size());
    std::transform(bits_.begin(), bits_.begin() + ptrdiff_t(n), bits.begin(), [](int32_t word) { return uint32_t(word); });
    std::fill(bits.begin() + ptrdiff_t(n), bits.end(), 0u);
    return true;
  }

  bool accept(int32_t token) override {
    if (problem_ != nullptr) return false;
    try {
      const int64_t begin = thread_ns();
      known_ = finished_ = false;
      ++tokens_;
      if (!matcher_.AcceptToken(token)) return false;
      counters_->accepted.fetch_add(1, std::memory_order_relaxed);
      counters_->accept_ns.fetch_add(spend(begin), std::memory_order_relaxed);
      if (matcher_.IsTerminated()) {
        finished_ = true;
      } else if (matcher_.IsCompleted() && problem_ == nullptr) {
        compute();
        finished_ = problem_ == nullptr && !all_ && only_ends();
      }
    } catch (const std::exception&) {
      problem_ = "the grammar engine failed";
      return false;
    }
    return true;
  }

  bool finished() const override { return finished_; }

  void rollback(int n) override {
    if (n <= 0 || problem_ != nullptr) return;
    try {
      matcher_.Rollback(n);
    } catch (const std::exception&) {
      problem_ = "the grammar engine failed";
    }
    known_ = finished_ = false;
  }

  std::string_view problem() const override { return problem_ == nullptr ? std::string_view() : std::string_view(problem_); }

 private:
  void compute() {
    const int64_t begin = thread_ns();
    try {
      int64_t size = int64_t(bits_.size());
      DLTensor view{.data = bits_.data(), .device = {kDLCPU, 0}, .ndim = 1, .dtype = xgrammar::GetBitmaskDLType(), .shape = &size, .strides = nullptr, .byte_offset = 0};
      all_ = !matcher_.FillNextTokenBitmask(&view);
      known_ = true;
    } catch (const std::exception&) {
      problem_ = "the grammar engine failed";
    }
    counters_->masks.fetch_add(1, std::memory_order_relaxed);
    counters_->mask_ns.fetch_add(spend(begin), std::memory_order_relaxed);
  }

  // Others share the steps of a sequence: one whose grammar costs far too much must end.
  int64_t spend(int64_t begin) {
    const int64_t took = thread_ns() - begin;
    spent_ns_ += took;
    if (spent_ns_ > std::max(sequence_ns_, token_ns_ * tokens_)) problem_ = "the grammar is too costly: it took too long to say which tokens may come next";
    return took;
  }

  // Nothing but an end may follow.
  bool only_ends() {
    const auto flip = [&](int32_t end) {
      if (end >= 0 && size_t(end) / 32 < bits_.size()) bits_[size_t(end) / 32] ^= int32_t(1u << (unsigned(end) & 31));
    };
    for (const int32_t end : matcher_.GetStopTokenIds()) flip(end);
    const bool none = std::all_of(bits_.begin(), bits_.end(), [](int32_t word) { return word == 0; });
    for (const int32_t end : matcher_.GetStopTokenIds()) flip(end);
    return none;
  }

  xgrammar::GrammarMatcher matcher_;
  std::shared_ptr<GrammarCounters> counters_;
  int64_t sequence_ns_, token_ns_, spent_ns_ = 0, tokens_ = 0;
  std::vector<int32_t> bits_;        ///< tokens that may come next, when known_ and not all_
  bool known_ = false, all_ = false, finished_ = false;
  const char* problem_ = nullptr;
};

}  // namespace

std::unique_ptr<TokenMask> make_mask(const xgrammar::CompiledGrammar& compiled, const std::shared_ptr<GrammarCounters>& counters, const GrammarLimits& limits) {
  return std::make_unique<Mask>(compiled, counters, limits);
}

}  // namespace isotope::text
