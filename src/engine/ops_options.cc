#include "engine/ops_options.h"

#include <algorithm>

namespace isotope::engine {

ops::CpuOpsOptions ops_options(const EngineOptions& o, const levers::Levers& levers, const CoreShare& share) {
  const levers::Fusion& f = levers.fusion();
  return {.threads = share.threads,
          .isa = o.isa.empty() ? levers.cpu().isa : o.isa,
          .precision = o.precision,
          .pin = share.pin,
          .tuning = {levers.cpu().linear_alone, levers.cpu().pass_kib << 10, levers.cpu().attention_alone},
          .fusions = {f.norm_quantize, f.act_quantize, f.qk_norm_rope_cache, f.qk_norm_max_tokens},
          .bf16_norms = f.model_sensitive_norm,
          .spill_folder = levers.loading().expert_folder,
          .first_core = share.first_core,
          .sparse = {std::min<int64_t>(levers.sparse().score_mb, 1 << 20) << 20, levers.sparse().glm_streams_apart, levers.sparse().streams_by_sequence}};
}

}  // namespace isotope::engine
