#include "weights/coverage.h"

#include <fnmatch.h>

#include <algorithm>
#include <unordered_set>

#include "base/log.h"
#include "weights/json.h"

namespace isotope::weights {

Coverage compare(const Checkpoint& c, const Wanted& wanted) {
  Coverage out;
  std::unordered_set<std::string_view> known;
  for (const auto* names : {&wanted.required, &wanted.optional})
    for (const std::string& n : *names) known.insert(n);
  for (const std::string& n : wanted.required)
    if (!c.find(n)) out.missing.push_back(n);
  const auto ignored = [&](const std::string& name) {
    return std::any_of(wanted.ignored.begin(), wanted.ignored.end(),
                       [&](const std::string& p) { return ::fnmatch(p.c_str(), name.c_str(), 0) == 0; });
  };
  for (const TensorEntry& t : c.tensors())
    if (!known.contains(t.name) && !ignored(t.name)) out.unexpected.push_back(t.name);
  return out;
}

Result<void> require(const Checkpoint& c, const Coverage& coverage, const levers::Loading& levers) {
  const std::string where = c.files().empty() ? std::string(c.container()) : c.files()[0];
  if (!coverage.missing.empty())
    return fail(Code::data_loss, std::to_string(coverage.missing.size()) + " tensors are missing: " + listed(coverage.missing),
                where, "use a complete checkpoint of the architecture that the file names");
  if (coverage.unexpected.empty()) return {};
  const std::string what =
      std::to_string(coverage.unexpected.size()) + " tensors are not used by this architecture: " + listed(coverage.unexpected);
  if (levers.strict_coverage)
    return fail(
        Code::unsupported, what, where,
        "use a checkpoint of the architecture that the file names, or set ATOM_LOADER_STRICT_COVERAGE=false to ignore them");
  base::log(base::LogLevel::warning, "{} ({})", what, where);
  return {};
}

}  // namespace isotope::weights
