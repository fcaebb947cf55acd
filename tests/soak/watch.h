// Memory while the soak runs.
#pragma once

#include <cstdint>
#include <vector>

namespace isotope::test {

/// Resident bytes of this process.
int64_t resident_bytes();

class MemoryWatch {
 public:
  void sample(double seconds) { samples_.push_back({seconds, double(resident_bytes())}); }
  /// Bytes per second over the second half of the run, by least squares.
  double slope() const;
  double growth() const;  ///< bytes from the middle of the run to its end

 private:
  struct Sample {
    double at, bytes;
  };
  std::vector<Sample> second_half() const;
  std::vector<Sample> samples_;
};

}  // namespace isotope::test
