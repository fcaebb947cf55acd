#include "http_get.h"

#include <fmt/format.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cctype>
#include <chrono>

#include "serve/json_body.h"

namespace isotope::app {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using tcp = boost::asio::ip::tcp;

constexpr std::chrono::seconds kPatience(10);

struct Address {
  std::string host, port;
};

Result<Address> parse_url(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  std::string rest = url;
  if (rest.starts_with(kScheme)) rest.erase(0, kScheme.size());
  rest = rest.substr(0, rest.find('/'));
  const size_t colon = rest.rfind(':'), bracket = rest.rfind(']');
  const bool has_port = colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  Address a{rest.substr(0, has_port ? colon : rest.size()), has_port ? rest.substr(colon + 1) : "8000"};
  if (a.host.size() > 2 && a.host.front() == '[') a.host = a.host.substr(1, a.host.size() - 2);
  if (a.host.empty() || a.port.empty() || url.starts_with("https:"))
    return fail(Code::invalid_argument, "'" + url + "' is no address that can be asked", "--url", "write http://HOST:PORT");
  return a;
}

std::string message_of(const std::string& body) {
  const auto json = serve::parse_json(body);
  if (json && json->is_object() && json->contains("error")) {
    const auto& e = (*json)["error"];
    if (e.is_object() && e.contains("message") && e["message"].is_string()) return e["message"].get<std::string>();
    if (e.is_string()) return e.get<std::string>();
  }
  return serve::shortened(body);
}

}  // namespace

std::string url_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) != 0 || c == '-' || c == '_' || c == '.' || c == '~') out += c;
    else out += fmt::format("%{:02X}", u);
  }
  return out;
}

Result<std::string> http_get(const std::string& url, const std::string& path, const std::string& api_key) {
  ISO_TRY(const Address to, parse_url(url));
  boost::asio::io_context io;
  beast::tcp_stream stream(io);
  beast::flat_buffer buffer;
  http::response<http::string_body> answer;
  beast::error_code error;
  const auto turn = [&] {  // one asynchronous operation, with its time limit
    io.restart();
    io.run();
  };
  const auto keep = [&](beast::error_code e, auto&&...) { error = e; };
  tcp::resolver resolver(io);
  const auto where = resolver.resolve(to.host, to.port, error);
  if (!error) {
    stream.expires_after(kPatience);
    stream.async_connect(where, keep);
    turn();
  }
  if (error) return fail(Code::unavailable, fmt::format("cannot reach {}:{}: {}", to.host, to.port, error.message()), url, "start `isotope serve`, or name its address");
  http::request<http::empty_body> ask(http::verb::get, path, 11);
  ask.set(http::field::host, to.host);
  if (!api_key.empty()) ask.set(http::field::authorization, "Bearer " + api_key);
  stream.expires_after(kPatience);
  http::async_write(stream, ask, keep);
  turn();
  if (!error) {
    stream.expires_after(kPatience);
    http::async_read(stream, buffer, answer, keep);
    turn();
  }
  if (error) return fail(Code::unavailable, "the server gave no answer: " + error.message(), url, "look at its log");
  if (answer.result_int() == 200) return answer.body();
  const Code code = answer.result_int() == 404 ? Code::not_found : Code::unavailable;
  return fail(code, fmt::format("status {}: {}", answer.result_int(), message_of(answer.body())), url);
}

}  // namespace isotope::app
