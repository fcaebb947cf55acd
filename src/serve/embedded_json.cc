#include "serve/embedded_json.h"

#include <string>
#include <utility>

namespace isotope::serve {

Result<Json> embedded_json(std::string_view text, std::string_view subject, size_t max_depth) {
  auto parsed = parse_json(text, max_depth);
  if (parsed) return parsed;
  Error error = std::move(parsed).error();
  constexpr std::string_view kOfBody = "the body is ";   // what parse_json() speaks of
  error.what = std::string(subject) + " " + (error.what.starts_with(kOfBody) ? error.what.substr(kOfBody.size()) : "not valid JSON: " + error.what);
  return tl::unexpected(std::move(error));
}

}  // namespace isotope::serve
