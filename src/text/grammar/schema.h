// JSON Schema as a request brings it, to the subset that a grammar holds exactly. What is let through is held by every text that the grammar
// lets through; what cannot be held is refused by name.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "isotope/result.h"

namespace isotope::text {

struct SchemaLimits {
  size_t max_bytes = 256 << 10;   ///< of the schema written out
  size_t max_depth = 48;          ///< schemas inside each other, $ref not followed
  size_t max_nodes = 8192;        ///< schemas
  size_t max_choices = 4096;      ///< entries of one enum, anyOf or oneOf
  int64_t max_repeat = 100000;    ///< minLength, maxLength, minItems, maxItems …; larger upper bounds are refused, not rounded
};

/// The schema with everything implied written out: `type` where keywords imply one, no optional properties beyond the named ones, `required` names
/// that have no schema. `closed`: objects get their named properties only, even where they name none. `at` is the path of the schema in the
/// request; errors have the path of the offending keyword as source.
Result<nlohmann::ordered_json> checked_schema(const nlohmann::ordered_json& schema, const std::string& at, bool closed = false, const SchemaLimits& = {});

/// For documentation: the JSON Schema keywords that are held, and those that are refused.
std::vector<std::string_view> held_keywords();
std::vector<std::string_view> refused_keywords();

}  // namespace isotope::text
