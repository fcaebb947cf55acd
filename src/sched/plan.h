// Planning of one step: a pure function from counts and block states. It touches no block, no device and no clock, and is tested
// with literals.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/manager.h"

namespace isotope::sched {

/// What planning knows of a sequence.
struct SeqState {
  int32_t ref = 0;        ///< the caller's handle, copied into the plan
  int64_t computed = 0;   ///< tokens whose KV is there; of a waiting sequence: what its prefix hit would give
  int64_t known = 0;      ///< tokens of prompt and output; a running one always has computed < known
  int64_t blocks = 0;     ///< length of its block tables; of a waiting one: blocks of the hit
  kv::Counts held{};      ///< blocks that preempting it would free; of a waiting one: evictable blocks its hit would take
  bool all_rows = false;  ///< wants logits at every prompt position: its chunk counts against max_logit_rows
  int64_t promised = 0;   ///< of a waiting one: tokens that its hit would have, had a running sequence stored the state that it will store; 0 = none
  bool fresh = false;     ///< has produced no token since it was admitted: spared by forced preemption, so that it advances
};

struct Limits {
  int64_t token_budget = 2048;    ///< tokens of one step
  int max_seqs = 256;             ///< running at once
  int64_t long_prefill = 0;       ///< cap on one sequence's chunk; 0 = none
  int64_t max_logit_rows = 1024;  ///< rows of prompt logits in one step
  bool chunked = true;            ///< false: a prompt is computed in one step, even above the budget if it is the only one
  int block_size = 16;
  int groups = 1;
  kv::Counts window{};  ///< per group, 0 = full attention
};

struct Input {
  std::span<const SeqState> running;  ///< most deserving first: priority, then arrival
  std::span<const SeqState> waiting;  ///< the same order; only the head that could be admitted need be given
  kv::Counts available{};             ///< free plus evictable blocks
  Limits limits;
  bool force_preempt = false;  ///< test aid: preempt one decoding sequence
  bool hold_prefill = false;   ///< the delayer's verdict: decodes only
};

/// A sequence whose prompt is computed: each step gives it one token.
inline constexpr bool decoding(const SeqState& s) { return s.known - s.computed == 1; }

/// How many tokens of a prompt a step could take, were `budget` tokens and `rows` rows of prompt logits left; 0 = none.
/// `others`: another prompt is in the step already (matters without chunking only).
int64_t chunk_limit(const SeqState&, const Limits&, int64_t budget, int64_t rows, bool others);

/// Blocks of a group that `tokens` more tokens may keep at most: a sliding window gives back what leaves it.
int64_t window_cap(const Limits&, int group, int64_t blocks, int64_t tokens);

/// Whether the whole of a waiting sequence fits into `room` blocks, its hit included.
bool admissible(const SeqState&, const Limits&, int64_t tokens, const kv::Counts& room);

struct StepPlan {
  struct Work {
    int32_t ref;
    int64_t tokens;
  };
  std::vector<int32_t> preempt;  ///< release these first; they wait again, with their place in the order
  std::vector<int32_t> admit;    ///< then claim these hits, all of them before any growth
  std::vector<Work> work;        ///< then grow and compute: decodes first
  void clear() { preempt.clear(), admit.clear(), work.clear(); }
};

/// Decodes first, then prompts in progress, then waiting ones as slots, budget and blocks allow. Whoever lacks a block preempts
/// the least deserving. A step that preempts admits nobody. A waiting sequence is admitted when its whole prompt fits beside what
/// running prompts still need, or when nothing runs. Nobody overtakes the head of the queue. While prefill is held only decodes
/// are planned. `out` is cleared and filled; its memory is reused.
class Planner {
 public:
  void plan(const Input&, StepPlan& out);

 private:
  struct State {
    int64_t tokens = 0;  ///< planned for this step
    bool preempted = false;
  };
  bool fits(int64_t blocks) const;
  int64_t new_blocks(const SeqState&, int64_t tokens) const;
  int64_t shrink_to_fit(const SeqState&, int64_t tokens) const;
  int64_t chunk(const SeqState& s) const { return chunk_limit(s, in_->limits, budget_, rows_, prefill_planned_); }
  void schedule(size_t i, int64_t tokens);
  void preempt(size_t i);
  void decode(size_t i);
  void continue_prefill(size_t i);
  bool preempt_last_before_giving_up(size_t i);
  void admit(StepPlan& out);
  kv::Counts reserve_for_running() const;

  const Input* in_ = nullptr;
  kv::Counts free_{};
  int64_t budget_ = 0, rows_ = 0;
  bool preempted_any_ = false, prefill_planned_ = false;
  std::vector<State> state_;
};

}  // namespace isotope::sched
