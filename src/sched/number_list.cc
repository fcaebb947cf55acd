#include "sched/number_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace isotope::sched {

namespace {

std::string names(std::span<const NamedNumber> known) {
  std::string all;
  for (const NamedNumber& n : known) all += fmt::format("{}{}", all.empty() ? "" : ", ", n.name);
  return all;
}

Result<void> parse_one(std::string_view item, std::span<const NamedNumber> known, std::string_view source) {
  const size_t eq = std::min(item.find('='), item.size());
  const auto n = std::find_if(known.begin(), known.end(), [&](const NamedNumber& k) { return k.name == item.substr(0, eq); });
  if (n == known.end()) return fail(Code::invalid_argument, fmt::format("there is no '{}'", item), std::string(source), "use " + names(known));
  const std::string_view digits = item.substr(std::min(eq + 1, item.size()));
  double v = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), v);
  if (error != std::errc() || end != digits.data() + digits.size() || !(v >= n->least && v <= n->most))
    return fail(Code::invalid_argument, fmt::format("{} is '{}'", n->name, digits), std::string(source),
                fmt::format("use a number from {} to {}", n->least, n->most));
  *n->value = v;
  return {};
}

}  // namespace

Result<void> parse_numbers(std::string_view text, std::span<const NamedNumber> known, std::string_view source) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    ISO_CHECK_OK(parse_one(text.substr(0, comma), known, source));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return {};
}

}  // namespace isotope::sched
