// Where the time of steps goes, op by op. An engine that is opened with a profile times each op by itself; others pay nothing.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace isotope {

/// All calls of one op with one shape.
struct OpTime {
  std::string name;          ///< "linear q4_k 2048>8192 x2"
  std::string kernel;        ///< what computes it: "int8 dots, 1 row" …
  int64_t calls = 0;
  int64_t ns = 0;
  int64_t bytes = 0;         ///< weights, KV and activations that must be read at least once
  int64_t operations = 0;    ///< a multiply and an add count two; 0 where they are not what the op is about
  enum class Arithmetic { float32, bf16, int8 } arithmetic = Arithmetic::float32;  ///< the peak that operations are to be held against
};

/// Sums over the steps since the last take(). Written by the engine's thread, taken by any.
struct StepTimes {
  std::vector<OpTime> ops;        ///< in order of their first call
  int64_t steps = 0;
  int64_t forward_ns = 0;         ///< model, ops and what lies between them
  int64_t sample_ns = 0;          ///< logits to tokens
  int64_t between_ns = 0;         ///< the engine's own work: the middle gap between two steps, times the number of steps
};

class StepProfile {
 public:
  StepTimes take();  ///< and starts anew

  // For the engine.
  void add_op(size_t index, int64_t ns, int64_t bytes, int64_t operations);
  size_t declare_op(OpTime);  ///< index for add_op, valid for good
  void add_step(int64_t forward_ns);
  void add_sampling(int64_t ns);
  void add_gap(int64_t ns);

 private:
  std::mutex mutex_;
  StepTimes times_;
  std::vector<int64_t> gaps_;
};

}  // namespace isotope
