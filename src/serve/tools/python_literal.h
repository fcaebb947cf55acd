// Calls written as Python: [get_weather(city="Paris", days=3), get_time()]
#pragma once

#include <string_view>
#include <vector>

#include "serve/tools/piece.h"

namespace isotope::serve {

/// `text` is a list in square brackets of calls whose arguments are keywords with literal values. Empty when it is anything else.
std::vector<ToolCall> python_calls(std::string_view text);

}  // namespace isotope::serve
