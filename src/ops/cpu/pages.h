// Memory straight from the system: zero, page-aligned, and not resident until it is touched.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "isotope/result.h"

namespace isotope::ops {

/// Move-only owner.
class Pages {
 public:
  Pages() = default;
  Pages(Pages&& o) noexcept : mem_(std::exchange(o.mem_, {})) {}
  Pages& operator=(Pages&& o) noexcept {
    std::swap(mem_, o.mem_);
    return *this;
  }
  ~Pages();
  /// Reserves `bytes`; physical memory is taken page by page as it is written. `what` names it in the error.
  static Result<Pages> reserve(size_t bytes, const char* what);

  std::byte* data() const { return mem_.data(); }
  size_t size() const { return mem_.size(); }

 private:
  std::span<std::byte> mem_;
};

}  // namespace isotope::ops
