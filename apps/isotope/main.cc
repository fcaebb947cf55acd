// The program. One file for each subcommand; each is named once in the list below.
#include <csignal>
#include <cstdio>

#include "commands.h"
#include "flags.h"
#include "levers/environment.h"
#include "output.h"
#include "usage.h"

namespace isotope::app {

int report(const Error& e) {
  std::fprintf(stderr, "isotope: %s\n", e.message().c_str());
  return e.code == Code::invalid_argument ? 2 : 1;
}

namespace {

int program(int argc, char** argv) {
  CLI::App app{"Isotope: an LLM serving engine that runs as one native program"};
  Context context;
  context.environment = levers::read_environment();
  app.set_version_flag("--version", "isotope " ISOTOPE_VERSION);
  app.add_option("--set", context.set, "set a lever: NAME=VALUE (repeatable)")->allow_extra_args(false);
  app.add_option("--config", context.config_file, "settings file, TOML or JSON");
  app.add_flag("--strict-levers", context.strict_levers, "stop on any doubtful setting");
  app.require_subcommand(0, 1);
  app.fallthrough();
  add_bench(app, context);
  add_doctor(app, context);
  add_explain(app, context);
  add_inspect(app, context);
  add_levers(app, context);
  add_logits(app, context);
  add_perplexity(app, context);
  add_quantize(app, context);
  add_tokenize(app, context);
  add_tune(app, context);
  add_run(app, context);
  add_serve(app, context);
  add_completion(app, context);
  require_real_numbers(app);
  app.name(argc > 0 ? argv[0] : "isotope");
  try {
    app.parse(arguments(argc, argv));
  } catch (const CLI::ParseError& e) {
    return answer_parse_error(app, e);
  }
  if (context.run) return context.run();
  out(app.help());
  return 0;
}

}  // namespace
}  // namespace isotope::app

int main(int argc, char** argv) {
  using namespace isotope::app;
  occupy_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows past the limit of the process is an error of the write, which is told and cleaned up after
  return guarded([&] { return finish_output(program(argc, argv)); });
}
