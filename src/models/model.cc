#include "models/model.h"

#include <fmt/format.h>

#include "models/arch.h"
#include "models/loader.h"

namespace isotope::models {

ops::Tensor Model::forward_for_drafts(ops::Ops&, const ops::Batch&, ops::Tensor&) const { return {}; }
DraftResult Model::draft(ops::Ops&, const ops::Batch&, const DraftStep&) const { return {}; }

Result<std::unique_ptr<Model>> load_model(const weights::Checkpoint& ck, ops::Ops& o, const levers::Loading& levers, const ModelConfig& config,
                                          const std::function<void(const LoadProgress&)>& progress) {
  const Arch* arch = arch_by_name(config.arch);
  if (!arch) return fail(Code::unsupported, fmt::format("architecture '{}'", config.arch), {}, "supported: " + supported_archs());
  std::unique_ptr<Transformer> model = arch->make();
  model->set_config(config);
  ISO_CHECK_OK(load_weights(ck, o, levers, *arch, *model, progress));
  return model;
}

}  // namespace isotope::models
