// Ctrl-C as something to wait for.
#pragma once

namespace isotope::app {

/// From construction on SIGINT no longer ends the process but is counted. One object at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  /// Ctrl-C was pressed since the last clear().
  bool pressed() const;
  void clear();
  /// Ends a wait() from any thread.
  void wake();
  /// Returns after wake(), after Ctrl-C, when `other` is readable (-1: none) or after `seconds` (-1: no limit).
  void wait(double seconds = -1, int other = -1);
};

/// While the object lives, Ctrl-C ends the process at once and quietly (status 130): nothing can be interrupted in the middle of loading.
class QuitOnInterrupt {
 public:
  QuitOnInterrupt();
  ~QuitOnInterrupt();
};

}  // namespace isotope::app
