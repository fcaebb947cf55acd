// isotope levers: every setting, its value, where it came from and what it does.
#include <cstdio>
#include <memory>
#include <set>

#include "commands.h"
#include "log_lines.h"
#include "levers/config_file.h"
#include "tuned.h"
#include "levers/print.h"
#include "output.h"

namespace isotope::app {

Result<levers::Levers> resolve_levers(const Context& c) {
  levers::Inputs in{.environment = c.environment, .config_path = c.config_file, .strict = c.strict_levers};
  in.tuned_path = tuned_path(c.environment);
  ISO_TRY(in.tuned, read_tuned(in.tuned_path));
  if (!c.config_file.empty()) {
    ISO_TRY(in.config_file, levers::read_config_file(c.config_file));
  }
  for (const std::string& s : c.set) {
    const size_t eq = s.find('=');
    if (eq == std::string::npos || eq == 0) return fail(Code::invalid_argument, "'" + s + "' is not NAME=VALUE", "--set", "write --set NAME=VALUE");
    in.set.emplace_back(s.substr(0, eq), s.substr(eq + 1));
  }
  ISO_TRY(levers::Levers levers, levers::Levers::resolve(in));
  show_log(levers, false);
  static std::set<std::string> told;  // `tune` resolves many times
  for (const std::string& w : levers.warnings())
    if (told.insert(w).second) std::fprintf(stderr, "isotope: %s\n", w.c_str());
  return levers;
}

void add_levers(CLI::App& app, Context& context) {
  struct Options {
    std::vector<std::string> words;
    bool json = false, markdown = false, changed = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("levers", "list all settings: value, source, default, meaning");
  sub->add_option("words", o->words, "grep WORD: only settings whose name, group or meaning has the word");
  sub->add_flag("--json", o->json, "as a JSON array");
  sub->add_flag("--md", o->markdown, "the documentation page");
  sub->add_flag("--changed", o->changed, "only what differs from the default");
  sub->callback([o, &context] {
    context.run = [o, &context] {
      if (o->markdown) return out(levers::to_markdown()), 0;
      const auto resolved = resolve_levers(context);
      if (!resolved) return report(resolved.error());
      if (!o->words.empty() && o->words.front() == "grep") o->words.erase(o->words.begin());
      if (o->words.size() > 1) return report(Error{Code::invalid_argument, "one word at a time", "levers", "use `isotope levers grep WORD`"});
      const levers::Filter filter{.word = o->words.empty() ? "" : std::string_view(o->words.front()), .changed_only = o->changed};
      out(o->json ? levers::to_json(*resolved, filter) : levers::to_table(*resolved, filter));
      return 0;
    };
  });
}

}  // namespace isotope::app
