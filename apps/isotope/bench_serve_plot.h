// A run of `isotope bench serve` as a picture.
#pragma once

#include <string>

#include "bench_serve_report.h"

namespace isotope::app {

/// An SVG: one bar for each answer along the time of the run (waiting for its first token, then getting the others; failures apart), and beside it
/// what share of the answers had its first token and its end within how long.
std::string serve_svg(const ServeRun&);

}  // namespace isotope::app
