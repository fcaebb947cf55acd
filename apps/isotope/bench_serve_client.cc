#include "bench_serve_client.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <list>

#include "bench_serve_stream.h"

namespace isotope::app {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

// Errors come as values: a server that fails is a record, not an exception.
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr size_t kErrorBody = 64 << 10;   // of an answer that is no stream
constexpr size_t kLongestEvent = 16 << 20;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }
Clock::duration seconds(double s) { return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s)); }

http::request<http::string_body> make_request(const LoadOptions& o, http::verb verb, const std::string& path, std::string body) {
  http::request<http::string_body> r{verb, o.target.prefix + path, 11};
  r.set(http::field::host, o.target.host.find(':') == std::string::npos ? o.target.host + ":" + o.target.port : "[" + o.target.host + "]:" + o.target.port);
  r.set(http::field::user_agent, "isotope-bench/" ISOTOPE_VERSION);
  r.set(http::field::connection, "close");
  if (!o.api_key.empty()) r.set(http::field::authorization, "Bearer " + o.api_key);
  if (verb == http::verb::post) {
    r.set(http::field::content_type, "application/json");
    r.set(http::field::accept, "text/event-stream");
    r.body() = std::move(body);
    r.prepare_payload();
  }
  return r;
}

/// One streaming request from its connection to its end. Fills the record.
class Exchange {
 public:
  Exchange(asio::io_context& io, const LoadOptions& o, RequestRecord& record, int64_t& events) : options_(o), stream_(io), record_(record), events_(events) {
    parser_.body_limit(boost::none);
  }

  asio::awaitable<void> run(const tcp::resolver::results_type& where, const std::string& body) {
    begin_ = last_ = Clock::now();
    const std::string failure = co_await talk(where, body);
    if (record_.error.empty()) record_.error = failure;
    if (record_.latency == 0) record_.latency = since(begin_);
    if (usage_) record_.output = *usage_;
  }

  const std::string& fingerprint() const { return fingerprint_; }

  /// Ends it from outside with this reason.
  void abandon(const std::string& reason) {
    if (record_.error.empty()) record_.error = reason;
    error_code ignored;
    stream_.socket().close(ignored);
  }

 private:
  asio::awaitable<std::string> talk(const tcp::resolver::results_type& where, const std::string& body) {
    expire();
    const auto [connect_error, endpoint] = co_await stream_.async_connect(where, kTuple);
    if (connect_error) co_return "cannot connect: " + connect_error.message();
    const auto request = make_request(options_, http::verb::post, options_.endpoint, body);
    error_code ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
    const auto [write_error, written] = co_await http::async_write(stream_, request, kTuple);
    if (write_error) co_return "cannot send: " + text(write_error);
    expire();
    const auto [header_error, header_bytes] = co_await http::async_read_header(stream_, buffer_, parser_, kTuple);
    if (header_error) co_return "no answer: " + text(header_error);
    streaming_ = parser_.get().result_int() == 200 && parser_.get()[http::field::content_type].starts_with("text/event-stream");
    const std::string failure = co_await read_body();
    if (!failure.empty()) co_return failure;
    if (parser_.get().result_int() != 200) co_return fmt::format("HTTP {}: {}", parser_.get().result_int(), error_message(plain_));
    if (!streaming_) co_return "the answer is no event stream: " + error_message(plain_);
    if (!finished_) co_return "the stream ended before its answer did";
    if (record_.output == 0 && !usage_) co_return "the stream has no tokens";
    co_return "";
  }

  asio::awaitable<std::string> read_body() {
    std::array<char, 16384> space;
    while (!parser_.is_done()) {
      parser_.get().body().data = space.data();
      parser_.get().body().size = space.size();
      expire();
      const auto [ec, n] = co_await http::async_read_some(stream_, buffer_, parser_, kTuple);
      take(std::string_view(space.data(), space.size() - parser_.get().body().size));
      if (!record_.error.empty()) co_return record_.error;
      if (ec && ec != http::error::need_buffer) co_return "the answer broke off: " + text(ec);
      if (splitter_.pending() > kLongestEvent) co_return "an event of the stream has no end";
    }
    co_return "";
  }

  void take(std::string_view bytes) {
    if (!streaming_) {
      plain_ += bytes.substr(0, kErrorBody - std::min(kErrorBody, plain_.size()));
      return;
    }
    splitter_.feed(bytes, [this](std::string_view data) { on_event(read_chunk(data)); });
  }

  void on_event(const Chunk& c) {
    if (!c.error.empty()) record_.error = c.error;
    if (c.completion_tokens) usage_ = c.completion_tokens;
    if (c.prompt_tokens) record_.input = *c.prompt_tokens;
    if (c.done || c.finished) finished_ = true;
    if (!c.fingerprint.empty()) fingerprint_ = c.fingerprint;
    // Servers that tell the end of a choice apart send an event without text for it: that is no token.
    if (!c.choice || (c.finished && c.text.empty())) return;
    const auto now = Clock::now();
    if (record_.output++ == 0)
      record_.ttft = std::chrono::duration<double>(now - begin_).count();
    else
      record_.itl.push_back(std::chrono::duration<double>(now - last_).count());
    last_ = now;
    record_.latency = std::chrono::duration<double>(now - begin_).count();
    record_.text += c.text;
    ++events_;
  }

  void expire() { stream_.expires_after(seconds(options_.timeout_s)); }
  std::string text(const error_code& ec) const {
    return ec == beast::error::timeout ? fmt::format("nothing came for {:g} s", options_.timeout_s) : ec == http::error::end_of_stream ? "the connection was closed" : ec.message();
  }

  const LoadOptions& options_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{1 << 20};
  http::response_parser<http::buffer_body> parser_;
  EventSplitter splitter_;
  RequestRecord& record_;
  int64_t& events_;
  Clock::time_point begin_, last_;
  std::optional<int64_t> usage_;   ///< output tokens as the server counts them
  std::string plain_, fingerprint_;
  bool streaming_ = false, finished_ = false;
};

/// All requests of a run.
class Load {
 public:
  Load(const LoadOptions& o, const std::vector<std::string>& bodies, const std::function<void(const Progress&)>& tell)
      : options_(o), bodies_(bodies), tell_(tell), signals_(io_, SIGINT, SIGTERM), ticker_(io_) {
    result_.records.resize(bodies.size());
  }

  LoadResult run() {
    if (bodies_.empty()) return std::move(result_);
    error_code ec;
    where_ = tcp::resolver(io_).resolve(options_.target.host, options_.target.port, ec);
    if (ec) {
      for (RequestRecord& r : result_.records) r.sent = true, r.error = "cannot find " + options_.target.host + ": " + ec.message();
      return std::move(result_);
    }
    signals_.async_wait([this](error_code e, int) { if (!e) interrupt(); });
    begin_ = Clock::now();
    workers_ = size_t(std::min<int64_t>(options_.concurrency, int64_t(bodies_.size())));
    for (size_t i = workers_; i > 0; --i) asio::co_spawn(io_, worker(), asio::detached);
    asio::co_spawn(io_, tick(), asio::detached);
    io_.run();
    result_.duration = since(begin_);
    tell();
    return std::move(result_);
  }

 private:
  asio::awaitable<void> worker() {
    while (next_ < bodies_.size() && !result_.interrupted) {
      const size_t i = next_++;
      co_await turn_of(i);
      if (result_.interrupted) break;
      RequestRecord& record = result_.records[i];
      record.sent = true;
      record.start = since(begin_);
      const auto exchange = running_.emplace(running_.end(), io_, options_, record, events_);
      co_await exchange->run(where_, bodies_[i]);
      if (!exchange->fingerprint().empty()) result_.fingerprint = exchange->fingerprint();
      running_.erase(exchange);
      ++ended_;
    }
    if (--workers_ > 0) co_return;
    signals_.cancel();
    ticker_.cancel();
  }

  asio::awaitable<void> turn_of(size_t i) {
    if (i >= options_.arrivals.size()) co_return;
    const auto at = begin_ + seconds(options_.arrivals[i]);
    if (at <= Clock::now()) co_return;
    const auto timer = waiting_.emplace(waiting_.end(), io_, at);
    co_await timer->async_wait(kTuple);
    waiting_.erase(timer);
  }

  asio::awaitable<void> tick() {
    while (workers_ > 0) {
      tell();
      ticker_.expires_after(std::chrono::milliseconds(250));
      co_await ticker_.async_wait(kTuple);
    }
  }

  void tell() { tell_({.ended = ended_, .running = running_.size(), .all = bodies_.size(), .events = events_, .seconds = since(begin_)}); }

  void interrupt() {
    result_.interrupted = true;
    for (Exchange& e : running_) e.abandon("interrupted");
    for (asio::steady_timer& t : waiting_) t.cancel();
  }

  const LoadOptions& options_;
  const std::vector<std::string>& bodies_;
  const std::function<void(const Progress&)>& tell_;
  asio::io_context io_{1};
  asio::signal_set signals_;
  asio::steady_timer ticker_;
  tcp::resolver::results_type where_;
  std::list<Exchange> running_;
  std::list<asio::steady_timer> waiting_;
  Clock::time_point begin_;
  LoadResult result_;
  int64_t events_ = 0;
  size_t next_ = 0, ended_ = 0, workers_ = 0;
};

}  // namespace

std::string Target::url() const { return "http://" + (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port + prefix; }

Result<Target> parse_target(const std::string& url) {
  const auto bad = [&](const std::string& why) { return fail(Code::invalid_argument, "'" + url + "' " + why, "--base-url", "give http://HOST:PORT"); };
  std::string_view rest = url;
  if (const size_t scheme = rest.find("://"); scheme != std::string_view::npos) {
    if (rest.substr(0, scheme) != "http") return bad("does not begin with http://; TLS is not spoken here");
    rest.remove_prefix(scheme + 3);
  }
  Target t;
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos) t.prefix = rest.substr(slash);
  while (t.prefix.ends_with('/')) t.prefix.pop_back();
  rest = rest.substr(0, slash);
  const size_t bracket = rest.starts_with('[') ? rest.find(']') : 0;
  if (bracket == std::string_view::npos) return bad("has an address without an end");
  const size_t colon = rest.find(':', bracket);
  t.host = bracket > 0 ? rest.substr(1, bracket - 1) : rest.substr(0, colon);
  t.port = colon == std::string_view::npos ? "80" : rest.substr(colon + 1);
  if (t.host.empty()) return bad("names no host");
  const bool digits = !t.port.empty() && t.port.size() <= 5 && t.port.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoi(t.port) < 1 || std::stoi(t.port) > 65535) return bad("has no valid port");
  for (const char c : url)
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f) return bad("has a space or control character");
  return t;
}

LoadResult run_load(const LoadOptions& o, const std::vector<std::string>& bodies, const std::function<void(const Progress&)>& progress) {
  return Load(o, bodies, progress).run();
}

Result<HttpAnswer> http_get(const LoadOptions& o, const std::string& path, double timeout_s) {
  asio::io_context io{1};
  HttpAnswer answer;
  std::string failure = "no answer in time";
  const auto talk = [&]() -> asio::awaitable<void> {
    const auto [resolve_error, where] = co_await tcp::resolver(io).async_resolve(o.target.host, o.target.port, kTuple);
    if (resolve_error) { failure = resolve_error.message(); co_return; }
    beast::tcp_stream stream(io);
    stream.expires_after(seconds(timeout_s));
    const auto [connect_error, endpoint] = co_await stream.async_connect(where, kTuple);
    if (connect_error) { failure = connect_error.message(); co_return; }
    const auto request = make_request(o, http::verb::get, path, {});
    const auto [write_error, written] = co_await http::async_write(stream, request, kTuple);
    if (write_error) { failure = write_error.message(); co_return; }
    beast::flat_buffer buffer(1 << 20);
    http::response<http::string_body> response;
    const auto [read_error, n] = co_await http::async_read(stream, buffer, response, kTuple);
    if (read_error) { failure = read_error.message(); co_return; }
    failure.clear();
    answer = {int(response.result_int()), std::move(response.body())};
  };
  asio::co_spawn(io, talk, asio::detached);
  io.run();
  if (!failure.empty()) return fail(Code::unavailable, failure, o.target.url() + path, "start a server there, or give its address with --base-url");
  return answer;
}

}  // namespace isotope::app
