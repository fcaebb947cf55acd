#include "serve/api_error.h"

namespace isotope::serve {
namespace {

constexpr std::string_view kFieldPrefix = "request field '";

struct Row {
  Code code;
  int status;
  const char* type;
};
constexpr Row kRows[] = {
    {Code::invalid_argument, 400, "BadRequestError"},      {Code::not_found, 404, "NotFoundError"},
    {Code::unsupported, 400, "BadRequestError"},           {Code::data_loss, 500, "InternalServerError"},
    {Code::resource_exhausted, 429, "RateLimitError"},     {Code::unavailable, 503, "ServiceUnavailableError"},
    {Code::cancelled, 503, "ServiceUnavailableError"},     {Code::internal, 500, "InternalServerError"},
};

const Row& row(Code code) {
  for (const Row& r : kRows) {
    if (r.code == code) return r;
  }
  return kRows[std::size(kRows) - 1];
}

// For statuses that no code stands for.
const char* type_of(const ApiError& e) {
  switch (e.status) {
    case 401: return "AuthenticationError";
    case 405: return "MethodNotAllowedError";
    case 415: return "UnsupportedMediaTypeError";
    case 413: return "RequestEntityTooLargeError";
    case 431: return "RequestHeaderFieldsTooLargeError";
    case 501: return "NotImplementedError";
    case 408: return "RequestTimeoutError";
    case 503: return "ServiceUnavailableError";
    default: return row(e.error.code).type;
  }
}

}  // namespace

Error field_error(std::string_view path, std::string what, std::string remedy, Code code) {
  return Error{code, std::move(what), std::string(kFieldPrefix) + std::string(path) + "'", std::move(remedy)};
}

int http_status(Code code) { return row(code).status; }
int http_status(const ApiError& e) { return e.status != 0 ? e.status : http_status(e.error.code); }

std::string_view field_path(const Error& e) {
  std::string_view s = e.source;
  if (!s.starts_with(kFieldPrefix)) return {};
  s.remove_prefix(kFieldPrefix.size());
  return s.substr(0, s.find('\''));
}

Json error_body(const ApiError& e) {
  const std::string_view path = field_path(e.error);
  Json inner = {{"message", e.error.message()},
                {"type", type_of(e)},
                {"param", path.empty() ? Json(nullptr) : Json(std::string(path))},
                {"code", http_status(e)}};
  for (const auto& [key, value] : e.extra.items()) inner[key] = value;
  return {{"error", std::move(inner)}};
}

}  // namespace isotope::serve
