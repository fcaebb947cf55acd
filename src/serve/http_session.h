// One connection. Everything runs on its strand.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/http_server.h"

namespace isotope::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using Strand = asio::strand<asio::io_context::executor_type>;
using Socket = asio::basic_stream_socket<tcp, Strand>;

/// What the sessions of a server share.
struct SessionContext {
  const HttpOptions& options;
  Handler& handler;
  asio::thread_pool& workers;
  asio::thread_pool& heavy;        ///< one thread for long bodies, so that they never hold up short ones
  std::atomic<int64_t>& body_bytes;   ///< of all sessions, held while a body arrives
  std::function<void()> closed;   ///< after a session's end, on its strand
};

class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(Socket socket, SessionContext context);
  ~HttpSession() { count_body(0); }
  /// `once`: the server is draining, and this connection gets one answer.
  void start(bool once = false);
  /// Thread-safe. Finishes the request under way, then closes; an idle connection closes at once.
  void drain();
  /// Thread-safe. Ends the answer under way with an error.
  void end_answer(Error e);

 private:
  using Parser = http::request_parser<http::string_body>;
  using Clock = std::chrono::steady_clock;

  asio::awaitable<void> run();
  asio::awaitable<bool> read_request(Parser&);
  asio::awaitable<bool> await_first_byte();
  asio::awaitable<bool> read_body(Parser&);
  /// Counts what the parser holds. False when all sessions together hold too much.
  bool count_body(size_t bytes);
  asio::awaitable<void> answer(HttpCall call);
  asio::awaitable<Reply> dispatch(HttpCall& call);
  asio::awaitable<bool> serve_pending(Pending&);
  asio::awaitable<bool> begin_stream();
  asio::awaitable<bool> write_events(std::string& events);
  asio::awaitable<bool> write_response(const HttpResponse&);
  asio::awaitable<bool> write_all(std::string_view data);
  asio::awaitable<void> refuse(int status, std::string what, std::string remedy);
  asio::awaitable<void> wait_woken(double seconds);
  asio::awaitable<void> stop_watching();

  bool to_call(Parser&, HttpCall&);
  std::string head(int status, std::string_view content_type, std::optional<size_t> length, const Headers& extra) const;
  void watch();
  void on_watched(error_code ec, size_t n);
  void wake();
  void set_deadline(double seconds);
  void clear_deadline() { ++deadline_generation_; deadline_.cancel(); }
  void close();

  Socket socket_;
  SessionContext context_;
  beast::flat_buffer buffer_;
  asio::steady_timer deadline_, waker_;
  uint64_t deadline_generation_ = 0;
  int64_t counted_ = 0;            ///< this session's part of body_bytes
  asio::cancellation_signal watch_cancel_;
  bool watching_ = false, unwatch_ = false, gone_ = false, woken_ = false;
  bool draining_ = false, once_ = false, idle_ = true, timed_out_ = false;
  Pending* pending_ = nullptr;     ///< the answer under way
  std::optional<Error> end_with_;

  // The request under way.
  bool keep_alive_ = false, head_only_ = false, chunked_ = false;
  std::string origin_, request_id_;
  int status_ = 0;
};

}  // namespace isotope::serve
