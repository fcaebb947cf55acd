// The GPT-2 byte alphabet: each byte stands as one printable character in byte-level vocabularies (Radford et al. 2019, encoder.py's bytes_to_unicode).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace isotope::text::byte_alphabet {

/// The character of a byte.
char32_t of(uint8_t byte);
/// The byte of a character, or -1.
int byte_of(char32_t c);
/// Every byte replaced by its character.
std::string encode(std::string_view bytes);
/// The bytes a text stands for; nothing if a character is not in the alphabet.
std::optional<std::string> decode(std::string_view text);

}  // namespace isotope::text::byte_alphabet
