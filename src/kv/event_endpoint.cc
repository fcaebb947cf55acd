#include "kv/event_endpoint.h"

#include <fmt/format.h>

#include <charconv>

namespace isotope::kv {

Result<std::string> endpoint_of_rank(std::string_view endpoint, int rank, std::string_view setting) {
  const auto bad = [&](std::string what) {
    return fail(Code::invalid_argument, std::move(what), std::string(setting), "write tcp://host:port, ipc://path or inproc://name");
  };
  const size_t scheme = endpoint.find("://");
  if (scheme == std::string_view::npos || scheme + 3 == endpoint.size())
    return bad(fmt::format("'{}' is no address of a socket", endpoint));
  const std::string_view kind = endpoint.substr(0, scheme);
  if (kind == "ipc" || kind == "inproc") return rank ? fmt::format("{}_dp{}", endpoint, rank) : std::string(endpoint);
  if (kind != "tcp") return bad(fmt::format("'{}' has the unknown transport '{}'", endpoint, kind));
  const size_t colon = endpoint.rfind(':');
  const std::string_view digits = endpoint.substr(colon + 1);
  if (colon > scheme && digits == "*") return std::string(endpoint);
  int port = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (colon <= scheme || error != std::errc() || end != digits.data() + digits.size() || port < 0 || port > 65535)
    return bad(fmt::format("'{}' has no port number", endpoint));
  if (port == 0 || rank == 0) return std::string(endpoint);
  if (port + rank > 65535)
    return bad(fmt::format("'{}' leaves no port for data-parallel rank {}: every rank takes its own", endpoint, rank));
  return fmt::format("{}:{}", endpoint.substr(0, colon), port + rank);
}

}  // namespace isotope::kv
