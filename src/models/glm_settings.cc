#include "models/glm_settings.h"

#include <algorithm>

namespace isotope::models {

std::string_view apply_glm_settings(const levers::Sparse& s, ModelConfig& c) {
  if (c.arch != "glm5_next" || (!s.glm_dense && (s.glm_pools || c.index.pool == 1))) return {};
  c.index.top *= c.index.pool, c.index.pool = 1;
  c.context_length = std::min(c.context_length, c.index.top);
  if (!s.glm_dense) return "ATOM_GLM5_KPOOL";
  for (LayerConfig& l : c.layer) l.choosing = Choosing::none;
  return "ATOM_GLM5_FORCE_DENSE_MLA";
}

}  // namespace isotope::models
