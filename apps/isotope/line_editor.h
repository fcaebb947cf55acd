// One line from the terminal, with editing and history (libedit).
#pragma once

#include <memory>
#include <string>

namespace isotope::app {

class Interrupt;

class LineEditor {
 public:
  /// `history_file` may be empty. The prompt goes to standard error, so that standard output carries answers only.
  LineEditor(Interrupt&, std::string history_file);
  ~LineEditor();

  enum class End { line, interrupted, closed };   ///< closed: Ctrl-D
  struct Line {
    End end = End::closed;
    std::string text;
  };
  Line read(const std::string& prompt);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace isotope::app
