// Standard output, and what happens when it cannot be written.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

#include "isotope/result.h"

namespace isotope::app {

/// Writes to standard output; false once that has failed. finish_output() tells about it.
bool out(std::string_view text);
/// The same, and at once.
bool out_now(std::string_view text);
template <class... A>
bool print(fmt::format_string<A...> f, A&&... a) {
  return out(fmt::format(f, std::forward<A>(a)...));
}

/// A program may be started with standard streams closed (`>&-`). Without this the next file that is opened would take their place, and be written into.
void occupy_standard_streams();
/// Flushes; the exit status: `status`, or 1 with a message when standard output took less than was written.
int finish_output(int status);

/// Runs the program: an exception that nothing else caught ends it with a message and exit status 1, in whatever thread it was thrown.
int guarded(const std::function<int()>& program);

}  // namespace isotope::app
