// Ops that time each call of another Ops: `isotope bench --explain`. Results are those of the ops inside.
#pragma once

#include <memory>

#include "isotope/profile.h"
#include "ops/ops.h"

namespace isotope::ops {

std::unique_ptr<Ops> make_metered(std::unique_ptr<Ops> inside, std::shared_ptr<StepProfile> profile);

}  // namespace isotope::ops
