// What a sequence has said so far, as the penalties need it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace isotope::sample {

/// Distinct tokens of a sequence with their counts; open addressing, grows by doubling.
class TokenCounts {
 public:
  struct Entry {
    int32_t token = -1;   ///< -1 = empty
    int32_t output = 0;   ///< times among the output tokens
    bool prompt = false;  ///< occurs in the prompt
  };
  void add_prompt(int32_t token) { entry(token).prompt = true; }
  void add_output(int32_t token) { ++entry(token).output; }
  std::span<const Entry> entries() const { return table_; }  ///< includes empty ones

 private:
  Entry& entry(int32_t token);
  void grow();
  std::vector<Entry> table_ = std::vector<Entry>(64);
  size_t used_ = 0;
};

}  // namespace isotope::sample
