// Memory of packed weights: slabs on huge pages, so that streaming a model misses few address translations even when single weights are small. Or slabs of a
// file, for weights that memory has no room for: the system writes them out and reads pages in when they are touched.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "isotope/result.h"

namespace isotope::ops {

/// Thread-safe. A slab is given back to the system when the store and every piece cut from it are gone; pieces may outlive the store.
class WeightStore {
 public:
  class Slab;
  /// `folder`: where files without a name hold the slabs; empty = memory.
  explicit WeightStore(std::string folder = {}) : folder_(std::move(folder)) {}
  struct Piece {
    std::shared_ptr<Slab> owner;
    std::byte* data = nullptr;  ///< zeroed, on a cache line
  };
  /// Fails when the system has no address space left, or the folder no room.
  Result<Piece> take(size_t bytes);

 private:
  Result<std::shared_ptr<Slab>> make_slab(size_t size) const;

  std::string folder_;
  std::mutex mutex_;
  std::shared_ptr<Slab> slab_;
};

}  // namespace isotope::ops
