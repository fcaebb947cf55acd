// What the command line got wrong.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "levers/levers.h"

namespace isotope::app {

/// Every option that holds a number, of all subcommands: an empty text, nan and inf are refused, which the parser's own ranges let through.
void require_real_numbers(CLI::App&);

/// Says on standard error what was wrong and what helps; --help and --version go to standard output. Returns the exit status.
int answer_parse_error(const CLI::App&, const CLI::ParseError&);

/// Any integer that fits 64 bits, signed or unsigned.
extern const CLI::Validator kSeed;

/// How many threads to use: what was asked, else what the settings say; 0 = one for each physical core. Many more than the machine runs at once only wait
/// for each other, so that the number is cut, with a warning; it never changes a result.
int thread_count(int asked, const levers::Levers&);

}  // namespace isotope::app
