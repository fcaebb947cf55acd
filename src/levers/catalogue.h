// The catalogue: one row for each setting. Parser, listing, documentation page and the check that nothing is silently ignored all read these rows.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace isotope::levers {

enum class Type : uint8_t { boolean, tristate, integer, real, enumeration, text, path, list, json };

/// How text becomes a value, where the type alone does not say it.
enum class Rule : uint8_t {
  value,         ///< by type
  presence,      ///< set = on, whatever the text; a text that reads as "no" gets a warning
  presence_off,  ///< set = the positive field goes off (ATLAS_NO_X)
  negative,      ///< a boolean whose truth switches the positive field off
  lenient,       ///< "1" or "true" is on, anything else is off with a warning
  armed_enum,    ///< an enumeration of two whose second value is armed by a boolean
};

enum class OnInvalid : uint8_t {
  stop,   ///< the start fails
  warn,   ///< the default stands, with a warning; fails under --strict-levers
  clamp,  ///< a number is moved into its range, with a warning; text that is no number falls back like `warn`
};

/// What becomes of a lever on the CPU once its mechanism exists.
enum class Plan : uint8_t {
  same,         ///< the same mechanism: active
  equivalent,   ///< another mechanism with the same purpose; `how` says which
  accelerator,  ///< only a GPU, or RDMA hardware, makes sense; `how` says why
};

struct Row {
  std::string_view name, group;
  Type type;
  Rule rule = Rule::value;
  OnInvalid invalid = OnInvalid::stop;
  std::string_view fallback;  ///< default as text; empty = unset; the name of another row = that row's value
  double min = -std::numeric_limits<double>::infinity(), max = std::numeric_limits<double>::infinity();
  bool min_open = false;             ///< the minimum itself is not allowed
  std::string_view values = {};      ///< enumeration or closed set of integers: "a|b"; an empty part means unset. list: "int", "int:3" (three, the first at least 1) or "text"
  Plan plan = Plan::same;
  std::string_view field = {};       ///< name of the field in code where it differs from the variable
  std::string_view aliases = {};     ///< other accepted spellings, space-separated; '!' in front: inverted polarity
  bool secret = false;               ///< the value is never printed
  std::string_view replacement = {}; ///< removed: accepted and ignored with one warning that names this setting
  std::string_view now = {};         ///< former name: its value goes to this setting
  std::string_view meaning;
  std::string_view how = {};         ///< the CPU's way (equivalent) or the reason (accelerator)
};

std::span<const Row> rows();
/// By name or alias; null if unknown. `inverted` tells that the alias has the opposite polarity.
const Row* find_row(std::string_view name, bool* inverted = nullptr);
/// Accepted values in words: "1 true yes on | 0 false no off", ">= 1", "packed | direct".
std::string domain(const Row&);
std::string_view type_name(Type);
/// The known name nearest to an unknown one, or empty when none is near.
std::string_view nearest_name(std::string_view unknown);

}  // namespace isotope::levers
