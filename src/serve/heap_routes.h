// The books of long-lived objects (base::HeapKeeper) as metrics; the census route is in heap_routes.cc.
#pragma once

#include <string>

namespace isotope::serve {

/// atom:gc_* as a tracing collector's would be: constant time, whatever lives.
std::string heap_metrics();

}  // namespace isotope::serve
