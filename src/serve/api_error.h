// Errors on the wire: vLLM's body {"error": {"message", "type", "param", "code"}} with an integer code.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "isotope/result.h"
#include "serve/json_body.h"

namespace isotope::serve {

/// An error on its way to a client. `extra` fields stand beside the message (numbers that a client may act on).
struct ApiError {
  ApiError(Error e) : error(std::move(e)) {}
  ApiError(Error e, Json more) : error(std::move(e)), extra(std::move(more)) {}
  Error error;
  Json extra = Json::object();
  int status = 0;  ///< 0: the one its code stands for
};

template <class T>
using Api = tl::expected<T, ApiError>;

/// A request field's error. `path` as a client would write it: "messages[2].content".
Error field_error(std::string_view path, std::string what, std::string remedy = {}, Code code = Code::invalid_argument);
inline tl::unexpected<Error> bad_field(std::string_view path, std::string what, std::string remedy = {}) {
  return tl::unexpected(field_error(path, std::move(what), std::move(remedy)));
}

int http_status(Code code);
int http_status(const ApiError& e);
/// The path that field_error() stored, or "".
std::string_view field_path(const Error& e);
Json error_body(const ApiError& e);

}  // namespace isotope::serve
