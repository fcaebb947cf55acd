#include "output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

namespace isotope::app {
namespace {

int g_error = 0;  ///< errno of the first failure; 0: none

bool note(bool good) {
  if (!good && g_error == 0) g_error = errno != 0 ? errno : EIO;
  return g_error == 0;
}

void tell_exception() {
  const auto say = [](const char* what) { std::fprintf(stderr, "isotope: unexpected failure: %s. Please report this with the command line.\n", what); };
  try {
    throw;
  } catch (const std::bad_alloc&) {
    std::fputs("isotope: there is not enough memory; free some, or choose a smaller model or --max-model-len\n", stderr);
  } catch (const std::exception& e) {
    say(e.what());
  } catch (...) {
    say("an exception of unknown type");
  }
}

// Threads, destructors and noexcept functions end here. A failed internal check does too: it has told its own story and keeps its core dump.
[[noreturn]] void on_terminate() {
  if (!std::current_exception()) std::abort();
  tell_exception();
  std::_Exit(1);
}

}  // namespace

bool out(std::string_view text) {
  if (g_error == 0) note(std::fwrite(text.data(), 1, text.size(), stdout) == text.size());
  return g_error == 0;
}

bool out_now(std::string_view text) { return out(text) && note(std::fflush(stdout) == 0); }

void occupy_standard_streams() {
  // Opened the other way round, so that using them fails as it would have.
  constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_RDONLY};
  for (int fd = 0; fd < 3; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) (void)::open("/dev/null", kModes[fd]);
  }
}

int finish_output(int status) {
  note(std::fflush(stdout) == 0);
  // A reader that has left knows that it has.
  if (g_error != 0 && g_error != EPIPE) std::fprintf(stderr, "isotope: standard output cannot be written: %s\n", std::strerror(g_error));
  return g_error != 0 && status == 0 ? 1 : status;
}

int guarded(const std::function<int()>& program) {
  std::set_terminate(on_terminate);
  try {
    return program();
  } catch (...) {
    tell_exception();
    return 1;
  }
}

}  // namespace isotope::app
