// Ranks of several processes that step together. They meet at rank 0, which listens; its process holds the group (ThreadGroup) and a thread for each other
// rank, which puts that rank's messages into it. A rank that goes is left out from then on; when rank 0 goes, each of the others steps by itself.
#pragma once

#include <memory>
#include <string>

#include "engine/step_group.h"
#include "isotope/result.h"

namespace isotope::engine {

struct Meeting {
  std::string host = "127.0.0.1";  ///< ATOM_DP_MASTER_IP
  int port = 29500;                ///< ATOM_DP_MASTER_PORT
  int rank = 0, size = 1;
  int64_t terms = 0;               ///< hash of all that decisions depend on; must be equal everywhere
  int patience_ms = 120'000;       ///< how long the ranks wait for each other
};

/// Waits until all ranks are there. Fails when the address is none, the port is taken, somebody is missing in the end, or two ranks differ in size or terms.
Result<std::unique_ptr<StepGroup>> meet(const Meeting&);

}  // namespace isotope::engine
