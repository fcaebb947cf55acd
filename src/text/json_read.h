// Reading component descriptions from JSON: every getter names the component and the field when something is missing or of another type.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>

#include "isotope/result.h"

namespace isotope::text {

using Json = simdjson::dom::element;

/// A JSON object that describes one component of a tokenizer.
class Fields {
 public:
  /// `where`: for messages, like "normalizer 'Replace'".
  static Result<Fields> of(Json value, std::string where);
  const std::string& where() const { return where_; }
  std::optional<Json> find(std::string_view key) const;      ///< nothing for null and for absent
  Result<Json> get(std::string_view key) const;
  Result<bool> boolean(std::string_view key, std::optional<bool> fallback = {}) const;
  Result<int64_t> integer(std::string_view key, std::optional<int64_t> fallback = {}) const;
  Result<std::string_view> string(std::string_view key, std::optional<std::string_view> fallback = {}) const;
  Result<simdjson::dom::array> array(std::string_view key) const;
  tl::unexpected<Error> error(std::string what) const;

 private:
  Fields(simdjson::dom::object object, std::string where) : object_(object), where_(std::move(where)) {}
  simdjson::dom::object object_;
  std::string where_;
};

}  // namespace isotope::text
