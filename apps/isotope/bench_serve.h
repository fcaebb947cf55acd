// isotope bench serve, declared below `isotope bench`.
#pragma once

#include "commands.h"

namespace isotope::app {

void add_bench_serve(CLI::App& bench, Context&);

}  // namespace isotope::app
