// What a model's KV groups cost, from the layers' own specifications.
#pragma once

#include <vector>

#include "engine/sizing.h"
#include "models/model.h"

namespace isotope::engine {

struct KvCosts {
  std::vector<KvGroupCost> groups;  ///< of keys and values, in the model's order; 0 bytes for a group without layers
  size_t state_bytes = 0;           ///< recurrent states of one sequence
};
KvCosts kv_costs(const models::Model&, const ops::Ops&, int block_size, KvType);

}  // namespace isotope::engine
