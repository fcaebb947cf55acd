// Memory of one step: taken piece by piece, given back all at once. Once a step of the largest size has run, no step allocates again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace isotope::base {

/// Move-only owner of 64-byte aligned memory, uninitialised.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(size_t bytes);
  std::byte* data() const { return mem_.get(); }
  size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const noexcept;
  };
  std::unique_ptr<std::byte, Free> mem_;
  size_t size_ = 0;
};

class Arena {
 public:
  static constexpr size_t kAlign = 64;

  /// n elements, uninitialised, 64-byte aligned, valid until reset(). T must be trivially destructible.
  template <class T>
  std::span<T> take(size_t n) {
    static_assert(std::is_trivially_destructible_v<T>);
    return {reinterpret_cast<T*>(take_bytes(n * sizeof(T))), n};
  }

  /// Gives everything back. If the last round needed several blocks they become one, so that the next round of that size needs no allocation.
  void reset();

  size_t used() const { return used_; }          ///< bytes taken since reset()
  size_t capacity() const { return capacity_; }  ///< bytes held
  int64_t allocations() const { return allocations_; }

 private:
  std::byte* take_bytes(size_t bytes);
  void grow(size_t bytes);

  std::vector<AlignedBuffer> blocks_;
  size_t offset_ = 0;  ///< in the last block
  size_t used_ = 0, capacity_ = 0;
  int64_t allocations_ = 0;
};

}  // namespace isotope::base
