// For our own mistakes only; what comes from outside returns Result<T>.
#pragma once

namespace isotope::base {
[[noreturn]] void check_failed(const char* expr, const char* file, int line) noexcept;
}

#define ISO_CHECK(expr) (static_cast<bool>(expr) ? void(0) : ::isotope::base::check_failed(#expr, __FILE__, __LINE__))
