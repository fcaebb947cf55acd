// The name that a misspelt one probably means.
#pragma once

#include <span>
#include <string_view>

namespace isotope::base {

/// The name of `names` with the fewest edits to `word`; "" when none is near: more than two edits, or a quarter of the word if that is more.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names);

}  // namespace isotope::base
