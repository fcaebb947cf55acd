// What the library tells, on standard error.
#pragma once

#include <string>

#include "base/log.h"
#include "levers/levers.h"

namespace isotope::app {

/// The lowest level that ISOTOPE_LOG_LEVEL lets through, but for "off".
base::LogLevel level_of(const std::string& name);

/// From now on warnings and errors are shown, with `verbose` all that is told; ISOTOPE_LOG_LEVEL may ask for fewer warnings, or more details.
void show_log(const levers::Levers&, bool verbose);

}  // namespace isotope::app
