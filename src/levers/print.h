// The catalogue for people and programs: terminal table, JSON and the documentation page.
#pragma once

#include <string>
#include <string_view>

#include "levers/levers.h"

namespace isotope::levers {

struct Filter {
  std::string_view word;      ///< in name, group, field or meaning, any case; empty = all
  bool changed_only = false;
};

std::string to_table(const Levers&, const Filter& = {});  ///< one block a lever: NAME = value (source) and what it means
std::string to_json(const Levers&, const Filter& = {});   ///< array of {name, aliases, type, value, source, default, domain, disposition, reason, meaning, group}
std::string to_markdown();                                ///< docs/levers.md: the catalogue without values

}  // namespace isotope::levers
