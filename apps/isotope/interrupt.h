// Ctrl-C as something to wait for.
#pragma once

namespace isotope::app {

/// From construction on SIGINT no longer ends the process but is counted. One object at a time.
class Interrupt {
 public:
  /// `all_endings`: SIGTERM and SIGHUP count as Ctrl-C does, unless the process was told to ignore them (nohup).
  explicit Interrupt(bool all_endings = false);
  ~Interrupt();
  /// Ctrl-C was pressed since the last clear().
  bool pressed() const;
  /// The exit status of a process that the last such signal ended: 130 for Ctrl-C.
  int status() const;
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
