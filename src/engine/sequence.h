// One request while it is alive. Built by the thread that submits it, then owned by the loop.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/heap_keeper.h"
#include "engine/journal.h"
#include "isotope/engine.h"
#include "kv/checkpoints.h"
#include "kv/manager.h"
#include "sample/history.h"
#include "sample/row.h"
#include "sched/scheduler.h"

namespace isotope::engine {

enum class Stage { waiting, running, finished };

/// What the sink will be told of a step.
struct Outcome {
  int32_t token = -1;  ///< new output token, or -1
  FinishReason finish = FinishReason::none;
  int32_t stop_token = -1;
  std::optional<Error> error;
  bool has_logprob = false;
  TokenLogprob logprob;
  std::array<std::vector<TokenLogprob>, 1> top;  ///< memory reused from step to step
};

struct Sequence : sched::Entry {
  explicit Sequence(Request r)
      : request(std::move(r)), tokens(std::move(request.prompt)), prompt_tokens(int64_t(tokens.size())) {}

  Request request;              ///< prompt moved into `tokens`
  std::vector<int32_t> tokens;  ///< prompt and output
  int64_t prompt_tokens;
  int64_t max_output = 0;
  std::vector<int32_t> end_tokens;  ///< sorted
  uint64_t seed = 0;

  Stage stage = Stage::waiting;
  int64_t computed = 0;  ///< tokens whose KV is there
  bool fresh = true;     ///< no token since it was admitted
  bool shortened = false;  ///< its chunk of this step gave tokens back to ranks that step together
  kv::SeqBlocks kv;
  kv::CheckpointPlan checkpoints;  ///< of a model with recurrent states, since it was admitted
  sample::TokenCounts counts;
  std::vector<std::vector<TokenLogprob>> prompt_logprobs;  ///< [prompt] when asked
  int64_t prompt_rows = 0;                                 ///< prompt positions whose logits have been read; survives preemption
  bool prompt_counted = false, prompt_reported = false;

  int64_t timed_chunks = 0;  ///< of its prompt since it was admitted, with the device timer
  std::shared_ptr<Journal> journal;
  void note(Decision d, int64_t now_ns) noexcept {
    if (journal) journal->note(d, now_ns);
  }

  Outcome outcome;
  bool reporting = false;  ///< its outcome waits for delivery
  RequestStats stats;
  base::Tracked tracked{"request", "engine"};  ///< retired with the request: whoever lives on has been forgotten
  int64_t submitted_ns = 0, admitted_ns = 0, first_token_ns = 0, last_token_ns = 0;

  int64_t known() const { return int64_t(tokens.size()); }
  int64_t output_tokens() const { return known() - prompt_tokens; }
  const SamplingParams& sampling() const { return request.sampling; }
  bool wants_prompt_logprobs() const { return sampling().prompt_logprobs >= 0; }
  /// Rows of the prompt whose logits are still wanted end here: the row at p predicts the token at p + 1.
  int64_t prompt_rows_end() const { return wants_prompt_logprobs() ? prompt_tokens - 1 : 0; }
  /// How many tokens a prefix hit may cover: at least one token is computed, and so is every prompt row that is wanted.
  int64_t hit_limit() const { return prompt_rows < prompt_rows_end() ? prompt_rows : known() - 1; }

  sample::Row row(std::span<const float> logits) const {
    return {.logits = logits,
            .params = &sampling(),
            .tokens = tokens,
            .prompt_tokens = prompt_tokens,
            .counts = &counts,
            .mask = request.mask.get(),
            .end_tokens = end_tokens,
            .seed = seed};
  }
};

}  // namespace isotope::engine
