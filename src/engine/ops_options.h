// How the CPU computes, as options and settings say: one place, so that whatever opens a model computes alike.
#pragma once

#include "engine/ranks.h"
#include "isotope/options.h"
#include "levers/levers.h"
#include "ops/ops.h"

namespace isotope::engine {

/// `share`: the cores of the engine. Reads precision and isa of the options; an empty isa leaves it to ISOTOPE_CPU_ISA.
ops::CpuOpsOptions ops_options(const EngineOptions&, const levers::Levers&, const CoreShare& share);

}  // namespace isotope::engine
