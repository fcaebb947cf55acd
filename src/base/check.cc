#include "base/check.h"

#include <cstdio>
#include <exception>

namespace isotope::base {

void check_failed(const char* expr, const char* file, int line) noexcept {
  std::fprintf(stderr, "isotope: internal check failed: %s at %s:%d. This is a defect of Isotope; please report it with this line.\n", expr, file,
               line);
  std::terminate();
}

}  // namespace isotope::base
