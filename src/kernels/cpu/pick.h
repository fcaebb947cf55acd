// Which instruction set runs. One list, best first; the first that this CPU can run wins, a setting can name another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "isotope/result.h"
#include "kernels/cpu/table.h"

namespace isotope::kernels::cpu {

struct IsaState {
  std::string_view isa;
  const KernelTable* table;  ///< call it only when runnable
  bool runnable;
  std::string reason;        ///< "this CPU has all of avx2 fma f16c bmi2", "this CPU lacks avx512_vnni"
};

/// All candidates, best first; `isotope doctor` prints it.
std::vector<IsaState> isa_candidates();

/// The best runnable table, or the one named `forced` (empty: none). An unknown or unrunnable name is an error that lists those that run.
/// `source` names the setting for the error.
Result<const KernelTable*> pick_isa(std::string_view forced = {}, std::string_view source = "ISOTOPE_CPU_ISA");

}  // namespace isotope::kernels::cpu
