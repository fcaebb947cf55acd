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
std::atomic<int> g_fd{-1};

void on_interrupt(int) {
  g_pressed = true;
  if (const int fd = g_fd; fd >= 0) eventfd_write(fd, 1);
}

void on_quit(int) {
  constexpr char kEnd[] = "\n";
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kEnd, 1);
  ::_exit(130);
}

void handle(void (*f)(int)) {
  struct sigaction action {};
  action.sa_handler = f;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);  // no SA_RESTART: reads end as well
}

}  // namespace

Interrupt::Interrupt() {
  g_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  g_pressed = false;
  handle(on_interrupt);
}

Interrupt::~Interrupt() {
  handle(SIG_DFL);
  ::close(g_fd.exchange(-1));
}

bool Interrupt::pressed() const { return g_pressed; }
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
