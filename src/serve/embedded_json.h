// JSON that a request carries as text: schemas, the arguments of calls.
#pragma once

#include <string_view>

#include "serve/json_body.h"

namespace isotope::serve {

/// `subject` begins the error: "the arguments are" not valid JSON, because … The caller names the field.
Result<Json> embedded_json(std::string_view text, std::string_view subject, size_t max_depth = kMaxJsonDepth);

}  // namespace isotope::serve
