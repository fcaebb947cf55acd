#pragma once

#include <string>

namespace isotope::telemetry {

/// The `process_*` metrics that Prometheus clients of all languages export (CPU seconds, start time, memory, open files), read from /proc/self at each call,
/// in text exposition format 0.0.4. What cannot be read is left out.
/// Source: https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics
std::string process_metrics();

}  // namespace isotope::telemetry
