#include "serve/route_headers.h"

#include <charconv>

#include "serve/json_body.h"

namespace isotope::serve {

namespace {

// Only equality matters, and a prefix of this length tells conversations apart.
constexpr size_t kLongestSession = 1024;

}  // namespace

Result<void> read_route_headers(const HttpCall& http, JobSpec& spec) {
  std::string_view session = http.header("x-dynamo-session-id");
  if (session.empty()) session = http.header("x-correlation-id");
  spec.session = session.substr(0, kLongestSession);
  spec.session_has_parent = !http.header("x-dynamo-parent-session-id").empty();
  const std::string_view rank = http.header("x-data-parallel-rank");
  if (rank.empty() || spec.rank >= 0) return {};
  const auto [end, error] = std::from_chars(rank.data(), rank.data() + rank.size(), spec.rank);
  if (error == std::errc() && end == rank.data() + rank.size() && spec.rank >= 0) return {};
  return fail(Code::invalid_argument, "the data-parallel rank is " + shown(Json(std::string(rank))), "header X-Data-Parallel-Rank",
              "send a number from 0, or leave it out");
}

}  // namespace isotope::serve
