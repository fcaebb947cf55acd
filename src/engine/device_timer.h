// Times of forward passes and, per request, of its prompt's chunks together, with the books that a device needs whose end of work is only seen later: a
// bounded queue of begun measurements, looked at in order. On the CPU a pass has ended when it returns; the books are the same.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

namespace isotope::engine {

class DeviceTimer {
 public:
  static constexpr size_t kPending = 256;   ///< begun and not read; beyond it a pass is not measured
  static constexpr size_t kTracked = 4096;  ///< requests with a partial sum; beyond it the oldest sum is dropped

  /// A chunk of a prompt in a pass, numbered from 1 since the request was (last) admitted.
  struct Chunk {
    uint64_t request = 0;
    int64_t number = 1;
    bool last = false;
  };
  struct Sinks {
    std::function<void(double seconds)> forward, prefill;
  };

  /// Before a pass. `chunks`: of prompts in it.
  void begin(int64_t now_ns, std::vector<Chunk> chunks);
  void end(int64_t now_ns);  ///< of the pass begun last
  void fail();               ///< the pass begun last broke off: it is not measured, its requests have no sum
  /// The request was preempted or is gone: what was summed up does not count.
  void discard(uint64_t request);
  /// Reads ended passes in order, up to the first that has not ended.
  void poll(const Sinks&);

  size_t pending() const { return passes_.size(); }
  size_t tracked() const { return sums_.size(); }
  int64_t invalid() const { return invalid_; }  ///< passes whose duration made no sense

 private:
  struct Pass {
    int64_t begin_ns = 0, end_ns = 0;
    bool ended = false;
    std::vector<Chunk> chunks;
  };
  struct Sum {
    int64_t next = 1;  ///< number of the chunk it waits for
    double seconds = 0;
  };
  void add(const Chunk&, double seconds, const Sinks&);

  std::deque<Pass> passes_;
  bool measuring_ = false;
  std::unordered_map<uint64_t, Sum> sums_;
  std::deque<uint64_t> order_;  ///< of sums_, oldest first; may name requests that are gone
  int64_t invalid_ = 0;
};

}  // namespace isotope::engine
