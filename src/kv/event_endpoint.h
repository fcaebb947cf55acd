// Addresses of the KV-event sockets.
#pragma once

#include <string>
#include <string_view>

#include "isotope/result.h"

namespace isotope::kv {

/// The address of a data-parallel rank: a TCP port plus the rank, "_dp<rank>" behind ipc and inproc names; rank 0 has the address
/// itself, and so has port 0 or *, which the system replaces. `setting` is named in errors.
Result<std::string> endpoint_of_rank(std::string_view endpoint, int rank, std::string_view setting);

}  // namespace isotope::kv
