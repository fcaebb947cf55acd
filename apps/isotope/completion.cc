// isotope completion SHELL: a completion script made from the program's own subcommands and options.
#include <memory>
#include <sstream>

#include "commands.h"
#include "model_path.h"
#include "output.h"

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

/// "--a|--b" of the options whose next word is their value.
std::string valued_options(const CLI::App& app) {
  std::string out;
  for (const CLI::Option* o : app.get_options()) {
    if (o->get_items_expected_max() == 0) continue;
    for (const std::string& l : o->get_lnames()) out += "|--" + l;
  }
  return out.empty() ? "--" : out.substr(1);
}

std::string bash(const CLI::App& app) {
  std::ostringstream s;
  std::string names;
  for (const CLI::App* sub : app.get_subcommands({})) names += sub->get_name() + " ";
  std::string models;
  for (const char* m : kBuiltInModels) models += std::string(m) + " ";
  s << "# bash completion for isotope\n_isotope() {\n  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} sub='' value='' w\n"
    << "  for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    if [[ -n $value ]]; then value=''; continue; fi\n"
    << "    case $w in " << valued_options(app) << ") value=1 ;; -*) ;; *) sub=$w; break ;; esac\n  done\n"
    << "  local words='" << options_of(app) << "'\n  case $sub in\n    '') words=\"$words " << names << "\" ;;\n";
  for (const CLI::App* sub : app.get_subcommands({})) s << "    " << sub->get_name() << ") words='" << options_of(*sub) << "' ;;\n";
  s << "  esac\n  if [[ $cur == -* || -z $sub ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); else COMPREPLY=($(compgen -f -- \"$cur\")); fi\n"
    << "  case $sub in run | serve | bench | doctor | inspect | logits | perplexity | tokenize)\n"
    << "    if [[ $cur != -* && ($prev == \"$sub\" || $prev == -m || $prev == --model) ]]; then COMPREPLY+=($(compgen -W '" << models << "' -- \"$cur\")); fi ;;\n  esac\n"
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
      out(script);
      return 0;
    };
  });
}

}  // namespace isotope::app
