// The pre-tokenizers that GGUF files name (tokenizer.ggml.pre), as the published tokenizers of those model families have them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace isotope::text {

struct GgufPre {
  std::string_view names;               ///< separated by spaces
  std::span<const std::string_view> steps;  ///< regular expressions to isolate, or one of the names below
  bool ignore_merges = false;
  bool adds_bos = false;                ///< unless the file says otherwise
  bool nfc = false;                     ///< the published tokenizer normalizes to NFC
};
// Steps that are no regular expressions.
inline constexpr std::string_view kStepDigits = "@digits";          ///< every digit on its own (Rust's is_numeric)
inline constexpr std::string_view kStepDigitRuns = "@digit-runs";
inline constexpr std::string_view kStepBytes = "@bytes";            ///< from here on in the byte alphabet

/// The row for a name, or null.
const GgufPre* find_gguf_pre(std::string_view name);
/// All known names, for messages.
std::string gguf_pre_names();

}  // namespace isotope::text
