// isotope completion SHELL: a completion script made from the program's own subcommands and options.
#include <cstdio>
#include <memory>
#include <sstream>

#include "commands.h"

namespace isotope::app {

namespace {

/// "--a --b -c" of one (sub)command.
std::string options_of(const CLI::App& app) {
  std::string out;
  for (const CLI::Option* o : app.get_options()) {
    for (const std::string& l : o->get_lnames()) out += " --" + l;
    for (const std::string& s : o->get_snames()) out += " -" + s;
  }
  return out.empty() ? out : out.substr(1);
}

std::string quoted(const std::string& s) {
  std::string out = "'";
  for (char c : s) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string bash(const CLI::App& app) {
  std::ostringstream s;
  std::string names;
  for (const CLI::App* sub : app.get_subcommands({})) names += sub->get_name() + " ";
  s << "# bash completion for isotope\n_isotope() {\n  local cur=${COMP_WORDS[COMP_CWORD]} sub='' w\n"
    << "  for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do case $w in -*) ;; *) sub=$w; break ;; esac; done\n"
    << "  local words='" << options_of(app) << "'\n  case $sub in\n    '') words=\"$words " << names << "\" ;;\n";
  for (const CLI::App* sub : app.get_subcommands({})) s << "    " << sub->get_name() << ") words='" << options_of(*sub) << "' ;;\n";
  s << "  esac\n  if [[ $cur == -* || -z $sub ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); else COMPREPLY=($(compgen -f -- \"$cur\")); fi\n"
    << "}\ncomplete -o filenames -F _isotope isotope\n";
  return s.str();
}

std::string zsh(const CLI::App& app) { return "#compdef isotope\nautoload -U +X bashcompinit && bashcompinit\n" + bash(app); }

std::string fish(const CLI::App& app) {
  std::ostringstream s;
  s << "# fish completion for isotope\n";
  for (const CLI::App* sub : app.get_subcommands({})) {
    s << "complete -c isotope -n __fish_use_subcommand -a " << sub->get_name() << " -d " << quoted(sub->get_description()) << "\n";
    for (const CLI::Option* o : sub->get_options())
      for (const std::string& l : o->get_lnames())
        s << "complete -c isotope -n '__fish_seen_subcommand_from " << sub->get_name() << "' -l " << l << " -d " << quoted(o->get_description()) << "\n";
  }
  return s.str();
}

}  // namespace

void add_completion(CLI::App& app, Context& context) {
  auto shell = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand("completion", "print a completion script for a shell");
  sub->add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  sub->callback([shell, &app, &context] {
    context.run = [shell, &app] {
      const std::string script = *shell == "bash" ? bash(app) : *shell == "zsh" ? zsh(app) : fish(app);
      std::fputs(script.c_str(), stdout);
      return 0;
    };
  });
}

}  // namespace isotope::app
