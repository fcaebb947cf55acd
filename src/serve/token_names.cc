#include "serve/token_names.h"

#include <fmt/format.h>
#include <simdjson.h>

namespace isotope::serve {

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

std::string token_name(const text::Tokenizer& tok, int32_t token) {
  std::string bytes = tok.token_bytes(token);
  if (is_utf8(bytes)) return bytes;
  std::string out = "bytes:";
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string id_name(int32_t token) { return "token_id:" + std::to_string(token); }

}  // namespace isotope::serve
