// Whether every schema within a schema has a value that ends.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "isotope/result.h"

namespace isotope::text {

/// `checked`: as checked_schema() makes it, all references resolved. Fails where a value may come to stand in a schema each value of which holds a
/// further one without end, as in {"$ref": "#/$defs/list"} whose list needs a list: a model led into it could never finish. `at` is the path of
/// the schema in the request.
Result<void> check_finite(const nlohmann::ordered_json& checked, const std::string& at);

}  // namespace isotope::text
