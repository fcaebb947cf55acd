// How many KV blocks each group gets, from the memory there is. Pure arithmetic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "isotope/options.h"
#include "kv/manager.h"

namespace isotope::engine {

struct KvGroupCost {
  int64_t window = 0;      ///< 0 = full attention
  size_t block_bytes = 0;  ///< one block over all layers of the group
};

struct KvSizing {
  std::vector<kv::GroupConfig> groups;
  int64_t max_model_len = 0;  ///< what was asked, or the longest sequence that fits
  int64_t tokens = 0;         ///< capacity of a full group
  size_t bytes = 0;
};

/// Shares `bytes` among the groups. A full group holds as many tokens as possible, at most max_num_seqs sequences of
/// max_model_len; a sliding group what as many sequences need of their windows. One sequence of max_model_len always fits; if it
/// cannot, max_model_len is cut. Fails when not even a few tokens fit.
Result<KvSizing> size_kv(std::span<const KvGroupCost>, const EngineOptions&, int64_t max_model_len, size_t bytes);

/// Slots of recurrent states, and how many sequences may run with them.
struct StateSizing {
  int64_t slots = 0;  ///< 0 = the model has no such states
  int max_num_seqs = 0;
};
/// Half of `bytes` at most holds states of `slot_bytes` each: one for each sequence, and with `images` as many again for stored prefixes. Where they do not
/// fit, fewer sequences run. Fails when not even one state fits.
Result<StateSizing> size_states(size_t slot_bytes, const EngineOptions&, bool images, size_t bytes);

/// Bytes for the KV cache: options.kv_bytes, or memory_fraction of what is available now.
Result<size_t> kv_budget(const EngineOptions&);

}  // namespace isotope::engine
