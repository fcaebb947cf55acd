// Request bodies to JSON values. The text is checked as a whole (UTF-8, nesting, numbers) before anything recursive sees it, so that no body can
// exhaust the stack or smuggle in invalid text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "isotope/result.h"

namespace isotope::serve {

using Json = nlohmann::ordered_json;

/// Arrays and objects inside each other, the outermost counted. Published clients stay below 20; JSON schemas of tools below 60.
inline constexpr size_t kMaxJsonDepth = 128;

/// Fails with invalid_argument and the byte position. Of equal keys in an object the last one counts.
Result<Json> parse_json(std::string_view text, size_t max_depth = kMaxJsonDepth);

/// Compact text; invalid UTF-8 becomes U+FFFD, so the result is always valid JSON.
std::string dump(const Json& value);

/// A value as it may appear in an error message: at most about 60 characters, never the whole body.
std::string shown(const Json& value);
/// The same for plain text.
std::string shortened(std::string_view text, size_t limit = 60);

}  // namespace isotope::serve
