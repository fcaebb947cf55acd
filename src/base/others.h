// What other programs take of the cores that this one may use.
#pragma once

#include <string_view>
#include <vector>

namespace isotope::base {

/// Processor time in seconds that the CPUs of `allowed` (by number; true = may be used) have worked, of the text of /proc/stat. What the hypervisor gave to others and
/// what lay idle does not count. 0 where the text has no such CPU.
double worked_seconds(std::string_view stat, const std::vector<bool>& allowed, double ticks_per_second);

/// Counts from its making on.
class Others {
 public:
  Others();
  /// Cores' worth of work that others did since, on the CPUs that this process may use; 0 where the system does not say.
  double cores() const;

 private:
  struct Times {
    double wall = 0, all = 0, own = 0;
  };
  static Times now();
  Times start_;
};

}  // namespace isotope::base
