// How tokens are spelled in log-probability objects.
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace isotope::serve {

/// Log-probabilities of impossible tokens, as vLLM writes them: JSON has no infinity.
inline constexpr float kLogprobFloor = -9999.0f;

/// The token's text; "bytes:\xe2\x82" when it is only a part of a character.
std::string token_name(const text::Tokenizer&, int32_t token);
/// "token_id:17"
std::string id_name(int32_t token);
/// Whole and valid UTF-8.
bool is_utf8(std::string_view text);

}  // namespace isotope::serve
