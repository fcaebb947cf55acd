// Numbers that are valid JSON but fit no machine type.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace isotope::serve {

/// The text with every integer beyond 64 bits written as a floating-point number, and every number beyond a double as the largest double of its
/// sign: such a number is then refused by the field that holds it, with its name, or ignored with it. Nothing when there is no such number, or
/// when something that is no JSON number stands where a number must.
std::optional<std::string> with_fitting_numbers(std::string_view json);

}  // namespace isotope::serve
