// Calls that a model writes as JSON objects.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "serve/tools/piece.h"

namespace isotope::serve {

/// The text of an arguments object: `value` itself, the object inside a JSON string, or {} for null. nullopt for anything else.
std::optional<std::string> arguments_text(std::string_view value);
/// {"name": …, "arguments" or "parameters": {…}}; nullopt for any other object.
std::optional<ToolCall> json_call(std::string_view object);
/// An array of such objects, or one object; empty when one of them is no call.
std::vector<ToolCall> json_calls(std::string_view value);

}  // namespace isotope::serve
