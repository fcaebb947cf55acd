// Memory of packed weights: slabs on huge pages, so that streaming a model misses few address translations even when single weights are small.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "isotope/result.h"

namespace isotope::ops {

/// Thread-safe. A slab is given back to the system when the store and every piece cut from it are gone; pieces may outlive the store.
class WeightStore {
 public:
  class Slab;
  struct Piece {
    std::shared_ptr<Slab> owner;
    std::byte* data = nullptr;  ///< zeroed, on a cache line
  };
  /// Fails when the system has no address space left.
  Result<Piece> take(size_t bytes);

 private:
  std::mutex mutex_;
  std::shared_ptr<Slab> slab_;
};

}  // namespace isotope::ops
