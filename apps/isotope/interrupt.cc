#include "interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

namespace isotope::app {
namespace {

// A signal handler can only reach what is global.
std::atomic<bool> g_pressed{false};
std::atomic<int> g_fd{-1}, g_signal{SIGINT};

void on_interrupt(int signal) {
  g_signal = signal;
  g_pressed = true;
  if (const int fd = g_fd; fd >= 0) eventfd_write(fd, 1);
}

void on_quit(int) {
  constexpr char kEnd[] = "\n";
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kEnd, 1);
  ::_exit(130);
}

void handle(void (*f)(int), int signal = SIGINT) {
  struct sigaction action {};
  action.sa_handler = f;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);  // no SA_RESTART: reads end as well
}

constexpr int kEndings[] = {SIGTERM, SIGHUP};

bool handled(int signal, void (*f)(int)) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == f;
}

}  // namespace

Interrupt::Interrupt(bool all_endings) {
  g_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  g_pressed = false;
  handle(on_interrupt);
  for (const int signal : kEndings)
    if (all_endings && handled(signal, SIG_DFL)) handle(on_interrupt, signal);
}

Interrupt::~Interrupt() {
  handle(SIG_DFL);
  for (const int signal : kEndings)
    if (handled(signal, on_interrupt)) handle(SIG_DFL, signal);
  ::close(g_fd.exchange(-1));
}

bool Interrupt::pressed() const { return g_pressed; }
int Interrupt::status() const { return 128 + g_signal; }
void Interrupt::clear() { g_pressed = false; }
void Interrupt::wake() { eventfd_write(g_fd, 1); }

void Interrupt::wait(double seconds, int other) {
  pollfd p[2] = {{g_fd, POLLIN, 0}, {other, POLLIN, 0}};
  ::poll(p, 2, seconds < 0 ? -1 : int(seconds * 1000));
  eventfd_t ignored = 0;
  eventfd_read(g_fd, &ignored);
}

QuitOnInterrupt::QuitOnInterrupt() { handle(on_quit); }
QuitOnInterrupt::~QuitOnInterrupt() { handle(SIG_DFL); }

}  // namespace isotope::app
