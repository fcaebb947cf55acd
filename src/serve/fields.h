// Typed reading of a request object. null counts as absent everywhere. A wrong type or a value outside its range is an error that names
// the field's path, what was expected and what came.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api_error.h"

namespace isotope::serve {

class Fields {
 public:
  /// `object` must be an object and outlive this. `path` is put before names: "stream_options".
  explicit Fields(const Json& object, std::string path = {});
  /// Fails unless `value` is an object.
  static Result<Fields> of(const Json& value, std::string path);

  std::string path(std::string_view name) const;
  /// The value, or null when absent or JSON null.
  const Json* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }

  Result<std::optional<bool>> boolean(std::string_view name) const;
  /// Integers, also written as 5.0; not "5".
  Result<std::optional<int64_t>> integer(std::string_view name, int64_t low, int64_t high) const;
  /// `low_open`: the value must be greater than `low`.
  Result<std::optional<double>> number(std::string_view name, double low, double high, bool low_open = false) const;
  Result<std::optional<std::string>> string(std::string_view name) const;
  /// One string or an array of strings.
  Result<std::vector<std::string>> strings(std::string_view name, size_t most, bool single_allowed) const;
  /// An array of integers within [low, high], low at least 0.
  Result<std::vector<int32_t>> ids(std::string_view name, int64_t low, int64_t high) const;
  Result<const Json*> object(std::string_view name) const;
  Result<const Json*> array(std::string_view name) const;

  /// "a boolean, got the string "false"": for messages of callers that read a value themselves.
  static std::string mismatch(std::string_view expected, const Json& got);

 private:
  const Json* object_;
  std::string path_;
};

/// The integer a JSON number stands for: 5 and 5.0, but not 5.5.
std::optional<int64_t> as_integer(const Json& value);

}  // namespace isotope::serve
