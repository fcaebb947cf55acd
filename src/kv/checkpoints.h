// Where the states of recurrent layers are stored, so that later prompts can go on from there. Pure functions of token counts.
#pragma once

#include <cstdint>
#include <vector>

namespace isotope::kv {

struct CheckpointOptions {
  int64_t interval = 4096;  ///< tokens from rung to rung, a multiple of the block size; -1 = no rungs; 0 = nothing is ever stored
  bool demand = true;       ///< where a hit ended for want of a stored state, the request stores one
  int64_t end_margin = 0;   ///< tokens that the prompt must have behind its last stored state
  bool midstep = false;     ///< states are stored in the middle of a step; else the step ends where one is stored
  bool check = false;       ///< each step is checked for slots that a sequence holds and should not, see state_check.h

  bool enabled() const { return interval != 0; }
};

/// Of one request, since it was admitted.
struct CheckpointPlan {
  int64_t prompt = 0;  ///< tokens known at admission
  int64_t anchor = 0;  ///< the last block boundary with enough tokens behind it; 0 = none
  int64_t demand = 0;  ///< 0 = none
  int64_t last = 0;    ///< tokens that the newest stored state covers

  /// The first position behind `computed` at which a step of the prompt has to end; 0 = none.
  int64_t next(const CheckpointOptions&, int64_t computed) const;
  /// All such positions behind `computed` and before `end`, ascending.
  std::vector<int64_t> between(const CheckpointOptions&, int64_t computed, int64_t end) const;
  /// The last position behind `computed`, at most `shared`, at which a state will be stored on the way to the prompt's end; 0 = none.
  int64_t last_within(const CheckpointOptions&, int64_t computed, int64_t shared) const;
  /// Whether a state is stored where `computed` tokens are known to the layers.
  bool wanted(const CheckpointOptions&, int block_size, int64_t computed) const;
};

/// `reused`: tokens of the hit. `reachable`: of the hit that there would be, had every block boundary a stored state.
CheckpointPlan plan_checkpoints(const CheckpointOptions&, int block_size, int64_t prompt, int64_t reused, int64_t reachable);

}  // namespace isotope::kv
