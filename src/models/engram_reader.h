// Reads rows of n-gram tables ahead of the layers that need them, on a thread of its own (ATOM_ENGRAM_UVA=0).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "ops/engram.h"

namespace isotope::models {

class EngramReader {
 public:
  /// What a step wants of one table, and where it comes. Belongs to the step; rows and memory stay where they are until wait() has returned.
  struct Job {
    const ops::RowTable* table = nullptr;
    std::span<const int64_t> rows;
    float* out = nullptr;  ///< [rows, dim]
    double seconds = 0;
    bool done = false;
  };

  EngramReader();
  ~EngramReader();  ///< REQUIRES: no job is under way
  EngramReader(const EngramReader&) = delete;
  EngramReader& operator=(const EngramReader&) = delete;

  void start(Job&);
  void wait(Job&);

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable wanted_, finished_;
  std::deque<Job*> queue_;
  bool stop_ = false;
  std::thread thread_;  ///< last: it uses the rest
};

}  // namespace isotope::models
