#include "usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "base/near_name.h"
#include "base/topology.h"
#include "output.h"

namespace isotope::app {
namespace {

constexpr int kMostThreads = 64;  ///< always allowed; more only on machines that have them

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Empty when the text is an integer; leading zeros, which the parser would take for octal, are removed.
std::string not_an_integer(std::string& text) {
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const bool digits = text.size() > sign && std::all_of(text.begin() + std::ptrdiff_t(sign), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) return "'" + text + "' is not an integer";
  text.erase(sign, std::min(text.find_first_not_of('0', sign), text.size() - 1) - sign);
  return {};
}

// Empty when the text is a number.
std::string not_a_number(std::string& text) {
  char* end = nullptr;
  errno = 0;
  const double v = std::strtod(text.c_str(), &end);
  const bool number = !text.empty() && !is_space(text[0]) && end == text.c_str() + text.size();
  return number && std::isfinite(v) ? std::string() : "'" + text + "' is not a finite number";
}

std::string not_a_seed(const std::string& text) {
  const bool negative = text.starts_with('-');
  char* end = nullptr;
  errno = 0;
  if (negative) {
    (void)std::strtoll(text.c_str(), &end, 10);
  } else {
    (void)std::strtoull(text.c_str(), &end, 10);
  }
  const bool digits = text.size() > size_t(negative) && std::all_of(text.begin() + negative, text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits && errno == 0 ? std::string() : "'" + text + "' is no integer from -9223372036854775808 to 18446744073709551615";
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* o : app.get_options())
    for (const std::string& l : o->get_lnames()) names.push_back("--" + l);
  return names;
}

/// The innermost subcommand that the line names; null for none.
const CLI::App* chosen(const CLI::App& app) {
  const auto subs = app.get_subcommands();
  if (subs.empty()) return nullptr;
  const CLI::App* inner = chosen(*subs.front());
  return inner != nullptr ? inner : subs.front();
}

/// "isotope bench serve".
std::string full_name(const CLI::App& app) { return app.get_parent() == nullptr ? "isotope" : full_name(*app.get_parent()) + " " + app.get_name(); }

std::string suggestion(const std::string& word, const std::vector<std::string>& names) {
  const std::string_view near = base::nearest_name(word, std::vector<std::string_view>(names.begin(), names.end()));
  return near.empty() ? std::string() : fmt::format("; did you mean {}?", near);
}

std::string unexpected(const CLI::App& app) {
  const CLI::App* sub = chosen(app);
  const std::vector<std::string> words = app.remaining(true);
  if (words.empty()) return "an argument is not understood";
  const std::string& word = words.front();
  if (word.size() > 1 && word[0] == '-') {
    std::vector<std::string> names = option_names(app);
    if (sub != nullptr) {
      const auto more = option_names(*sub);
      names.insert(names.end(), more.begin(), more.end());
    }
    const std::string bare = word.substr(0, word.find('='));
    return fmt::format("unknown option {}{}", bare, suggestion(bare, names));
  }
  if (sub != nullptr) return fmt::format("'{}' is one argument too many", word);
  std::vector<std::string> names;
  for (const CLI::App* s : app.get_subcommands({})) names.push_back(s->get_name());
  return fmt::format("there is no command '{}'{}", word, suggestion(word, names));
}

void require_real_numbers_of(CLI::App& app) {
  // As transformations they come before the ranges.
  for (CLI::Option* o : app.get_options()) {
    const std::string type = o->get_type_name();
    if (type.starts_with("FLOAT")) o->transform(CLI::Validator(not_a_number, ""));
    if (type.starts_with("INT") || type.starts_with("UINT")) o->transform(CLI::Validator(not_an_integer, ""));
  }
}

}  // namespace

const CLI::Validator kSeed([](std::string& text) { return not_a_seed(text); }, "INT");

void require_real_numbers(CLI::App& app) {
  require_real_numbers_of(app);
  for (CLI::App* sub : app.get_subcommands({})) require_real_numbers(*sub);
}

int answer_parse_error(const CLI::App& app, const CLI::ParseError& e) {
  if (e.get_exit_code() == 0) {
    std::ostringstream text, none;
    app.exit(e, text, none);
    out(text.str());
    return 0;
  }
  const CLI::App* sub = chosen(app);
  const std::string command = full_name(sub == nullptr ? app : *sub);
  const std::string what = dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr ? unexpected(app) : e.what();
  std::fprintf(stderr, "isotope: %s\n`%s --help` tells more.\n", what.c_str(), command.c_str());
  return 2;
}

int thread_count(int asked, const levers::Levers& levers) {
  const int wanted = asked > 0 ? asked : levers.cpu().threads;
  const int most = std::max(kMostThreads, base::machine().logical_cpus);
  if (wanted <= most) return wanted;
  std::fprintf(stderr, "isotope: %d threads were asked for, this machine runs %d at once; %d are used\n", wanted, base::machine().logical_cpus, most);
  return most;
}

}  // namespace isotope::app
