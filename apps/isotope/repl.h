// The chat prompt of `isotope run`.
#pragma once

#include <string>

#include "chat.h"

namespace isotope::app {

struct ReplOptions {
  std::string system;           ///< system message, or empty
  serve::Json sampling;         ///< request fields: temperature, seed …
  std::string history_file;
  bool verbose = false;
  bool colour = false;
};

/// Reads lines until /exit, Ctrl-D or Ctrl-C twice. Returns the exit status.
int repl(serve::Frontend&, ReplOptions, Interrupt&);

}  // namespace isotope::app
