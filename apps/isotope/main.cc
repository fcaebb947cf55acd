// The program. One file for each subcommand.
#include <CLI/CLI.hpp>
#include <cstdio>

int main(int argc, char** argv) {
  CLI::App app{"Isotope: an LLM serving engine that runs as one native program"};
  app.set_version_flag("--version", "isotope " ISOTOPE_VERSION);
  app.require_subcommand(0, 1);
  CLI11_PARSE(app, argc, argv);
  if (app.get_subcommands().empty()) std::fputs(app.help().c_str(), stdout);
  return 0;
}
