// Do the tensors a model asks for and the tensors its files hold agree?
#pragma once

#include <span>
#include <string>
#include <vector>

#include "isotope/result.h"
#include "weights/checkpoint.h"

namespace isotope::weights {

struct Coverage {
  std::vector<std::string> missing;     ///< wanted, but in no file; in the order wanted
  std::vector<std::string> unexpected;  ///< in a file, but not wanted; in the file's order
  bool complete() const { return missing.empty(); }
};

/// `optional` names may be absent; `ignored` holds shell-like patterns ("*.rotary_emb.inv_freq") of tensors that files carry and
/// no model reads.
struct Wanted {
  std::vector<std::string> required, optional;
  std::vector<std::string> ignored = {};
};
Coverage compare(const Checkpoint&, const Wanted&);

/// An error that lists the first 20 missing names. With ATOM_LOADER_STRICT_COVERAGE tensors that nobody reads are an error too,
/// since they mean that the file is of another architecture than it says; otherwise a warning goes to the log.
Result<void> require(const Checkpoint&, const Coverage&, const levers::Loading&);

}  // namespace isotope::weights
