// What can be said of a wished-for grammar before the library sees it.
#pragma once

#include "text/grammar/grammar.h"

namespace isotope::text {

/// Between two tokens of JSON. Enough for deep indentation, and an end for a model that has lost its way.
inline constexpr int kMostSpaces = 24;

/// The wish with its schema checked and completed; sizes and counts within the limits.
Result<GrammarSpec> check_spec(const GrammarSpec&, const GrammarLimits&);

}  // namespace isotope::text
