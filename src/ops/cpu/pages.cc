#include "ops/cpu/pages.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace isotope::ops {

Pages::~Pages() {
  if (!mem_.empty()) munmap(mem_.data(), mem_.size());
}

Result<Pages> Pages::reserve(size_t bytes, const char* what) {
  Pages p;
  if (bytes == 0) return p;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return fail(Code::resource_exhausted, fmt::format("cannot reserve {} bytes for {}: {}", bytes, what, std::strerror(errno)), "system memory",
                "ask for less, or raise the limit on address space (ulimit -v)");
  }
  p.mem_ = {static_cast<std::byte*>(at), bytes};
  return p;
}

}  // namespace isotope::ops
