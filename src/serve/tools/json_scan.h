// JSON as a model writes it, byte by byte: where a value ends, and the raw texts of its members. Raw texts are passed on, so that numbers keep the
// spelling and the precision that the model gave them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isotope::serve {

inline constexpr size_t kMaxCallDepth = 64;   ///< brackets inside each other in one tool call

enum class Scan { more, done, broken };

/// Follows one object or array. Says `broken` at the first byte that cannot belong to it; that byte is not part of the value.
class JsonScanner {
 public:
  Scan push(char c);

 private:
  enum class Want { start, value, value_or_close, key, key_or_close, colon, next };
  Scan open(char c);
  Scan close(char c);
  Scan outside(char c);
  bool end_atom();

  std::string open_, atom_;
  Want want_ = Want::start;
  bool string_ = false, escape_ = false;
};

using Members = std::vector<std::pair<std::string, std::string_view>>;

/// `text` is one valid JSON value (numbers in range, surrogates paired) within the depth limit.
bool is_json(std::string_view text);
bool is_json_object(std::string_view text);
/// Keys and raw values of a valid object; of equal keys the last one counts.
Members object_members(std::string_view object);
/// Raw elements of a valid array.
std::vector<std::string_view> array_items(std::string_view array);
/// The text of a valid JSON string; nullopt when the value is something else.
std::optional<std::string> json_string(std::string_view value);
/// `text` as a JSON string; invalid UTF-8 becomes U+FFFD.
std::string json_quote(std::string_view text);

}  // namespace isotope::serve
