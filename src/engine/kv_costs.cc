#include "engine/kv_costs.h"

namespace isotope::engine {

KvCosts kv_costs(const models::Model& model, const ops::Ops& ops, int block_size, KvType type) {
  KvCosts out;
  for (size_t g = 0; g < model.kv_groups().size(); ++g) {
    const ops::KvGroupSpec& spec = model.kv_groups()[g];
    const size_t bytes = ops.kv_block_bytes(model.kv_layers(), int(g), block_size, type);
    if (spec.kind == ops::KvGroupSpec::Kind::state) out.state_bytes = bytes;
    else out.groups.push_back({spec.kind == ops::KvGroupSpec::Kind::sliding ? spec.window : 0, bytes});
  }
  return out;
}

}  // namespace isotope::engine
