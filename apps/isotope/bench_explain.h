// `isotope bench --explain`: where the time of a step goes, against what the machine allows.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "isotope/profile.h"
#include "ops/cpu/limits.h"

namespace isotope::app {

/// Lines for people: one op a row, the dearest first, then what bounds the step.
std::string explain_text(const std::string& test, const StepTimes&, const ops::MachineLimits&);
/// The same as numbers, times in microseconds a step.
nlohmann::ordered_json explain_json(const StepTimes&, const ops::MachineLimits&);

}  // namespace isotope::app
