#include "levers/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/near_name.h"

namespace isotope::levers {

namespace {

constexpr Row kRows[] = {
#include "levers/rows/attention.def"
#include "levers/rows/debug.def"
#include "levers/rows/graphs.def"
#include "levers/rows/internal.def"
#include "levers/rows/isotope.def"
#include "levers/rows/kernels.def"
#include "levers/rows/kv.def"
#include "levers/rows/loading.def"
#include "levers/rows/models.def"
#include "levers/rows/moe.def"
#include "levers/rows/offload.def"
#include "levers/rows/recurrent.def"
#include "levers/rows/sched.def"
#include "levers/rows/spec.def"
#include "levers/rows/telemetry.def"
#include "levers/rows/text.def"
#include "levers/rows/transfer.def"
};

struct Entry {
  const Row* row;
  bool inverted;
};

const std::map<std::string_view, Entry>& index() {
  static const std::map<std::string_view, Entry> map = [] {
    std::map<std::string_view, Entry> m;
    for (const Row& r : kRows) {
      m[r.name] = {&r, false};
      std::string_view rest = r.aliases;
      while (!rest.empty()) {
        const size_t end = std::min(rest.find(' '), rest.size());
        std::string_view alias = rest.substr(0, end);
        const bool inverted = alias.starts_with('!');
        if (inverted) alias.remove_prefix(1);
        m[alias] = {&r, inverted};
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    }
    return m;
  }();
  return map;
}

std::string range(const Row& r) {
  const bool low = std::isfinite(r.min), high = std::isfinite(r.max);
  if (low && high) return fmt::format("{} .. {}", r.min, r.max);
  if (low) return fmt::format("{} {}", r.min_open ? ">" : ">=", r.min);
  if (high) return fmt::format("<= {}", r.max);
  return r.type == Type::integer ? "any integer" : "any finite number";
}

std::string choices(std::string_view values) {
  std::string out;
  for (size_t at = 0; at <= values.size();) {
    const size_t end = std::min(values.find('|', at), values.size());
    if (!out.empty()) out += " | ";
    out += end == at ? "(empty)" : values.substr(at, end - at);
    at = end + 1;
  }
  return out;
}

}  // namespace

std::span<const Row> rows() { return kRows; }

const Row* find_row(std::string_view name, bool* inverted) {
  const auto it = index().find(name);
  if (it == index().end()) return nullptr;
  if (inverted) *inverted = it->second.inverted;
  return it->second.row;
}

std::string_view type_name(Type t) {
  constexpr std::string_view kNames[] = {"bool", "tristate", "int", "float", "enum", "string", "path", "list", "json"};
  return kNames[size_t(t)];
}

std::string domain(const Row& r) {
  constexpr std::string_view kBoolean = "1 true yes on | 0 false no off";
  switch (r.rule) {
    case Rule::presence: return "set = on, whatever the text; unset it to switch it off";
    case Rule::presence_off: return "set = off, whatever the text; unset it to keep it on";
    case Rule::negative: return fmt::format("{} (true switches it off)", kBoolean);
    case Rule::lenient: return "1 true | anything else is off";
    case Rule::armed_enum: return fmt::format("{} (true = {})", kBoolean, r.values.substr(r.values.find('|') + 1));
    case Rule::value: break;
  }
  std::string d;
  switch (r.type) {
    case Type::boolean: d = kBoolean; break;
    case Type::tristate: d = fmt::format("{} | unset = the engine decides", kBoolean); break;
    case Type::integer:
    case Type::real: d = r.values.empty() ? range(r) : choices(r.values); break;
    case Type::enumeration: d = choices(r.values); break;
    case Type::text: d = "any text"; break;
    case Type::path: d = "a path"; break;
    case Type::list: d = r.values == "int:3" ? "three integers, separated by commas, the first at least 1" : r.values == "int" ? "integers, separated by commas" : "names, separated by commas"; break;
    case Type::json: d = "a JSON object"; break;
  }
  if (r.invalid == OnInvalid::clamp) d += " (moved into the range, with a warning)";
  if (r.invalid == OnInvalid::warn) d += " (anything else: the default, with a warning)";
  return d;
}

std::string_view nearest_name(std::string_view unknown) {
  std::vector<std::string_view> names;
  for (const auto& [name, entry] : index()) names.push_back(name);
  return base::nearest_name(unknown, names, std::max<size_t>(2, unknown.size() / 8));
}

}  // namespace isotope::levers
