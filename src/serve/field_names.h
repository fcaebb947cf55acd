// What the fields of a chat request are called in the request of another API that it was made of, for errors.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/api_error.h"

namespace isotope::serve {

class FieldNames {
 public:
  /// The chat request's field `chat` and what is below it came from `own`. Of several that fit, the longest counts, then the latest.
  void add(std::string chat, std::string own) { pairs_.emplace_back(std::move(chat), std::move(own)); }
  /// The path as the client wrote it.
  std::string own(std::string_view path) const;
  /// The error with the client's own path; one that names no field stays as it is.
  ApiError own(ApiError) const;

 private:
  std::vector<std::pair<std::string, std::string>> pairs_;
};

}  // namespace isotope::serve
