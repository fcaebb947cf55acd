// The name that a misspelt one probably means.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace isotope::base {

/// The name of `names` with the fewest edits to `word`, the first among equals; "" when all take more than `most`.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names, size_t most);
/// The same for short names: at most two edits, or a quarter of the word if that is more, and fewer than it has letters.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> names);

}  // namespace isotope::base
