// What the headers of a call say about where it should run: session and data-parallel rank, under the names that Dynamo, ATOM and vLLM use.
#pragma once

#include "serve/http_types.h"
#include "serve/job.h"

namespace isotope::serve {

/// X-Dynamo-Session-ID, else X-Correlation-ID, is the session; X-Dynamo-Parent-Session-ID says that it has a parent; X-Data-Parallel-Rank names a rank, unless
/// the body did. Fails for a rank that is no number.
Result<void> read_route_headers(const HttpCall&, JobSpec&);

}  // namespace isotope::serve
