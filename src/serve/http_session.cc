#include "serve/http_session.h"

#include <fmt/format.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <algorithm>
#include <utility>

#include "serve/http_text.h"

namespace isotope::serve {
namespace {

// Errors come as values: a client that leaves is no exception.
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr size_t kReadAhead = 64 << 10;   // pipelined bytes taken while an answer is under way

asio::awaitable<Reply> on_worker(Handler* handler, HttpCall* call) { co_return handler->handle(std::move(*call)); }

}  // namespace

HttpSession::HttpSession(Socket socket, SessionContext context)
    : socket_(std::move(socket)),
      context_(std::move(context)),
      buffer_(context_.options.header_limit + kReadAhead),
      deadline_(socket_.get_executor()),
      waker_(socket_.get_executor()) {}

void HttpSession::start(bool once) {
  once_ = once;
  auto self = shared_from_this();
  asio::co_spawn(socket_.get_executor(), [self] { return self->run(); }, [self](std::exception_ptr) {
    // Only memory can run out here; the connection is given up and the server lives.
    self->close();
    self->context_.closed();
  });
}

void HttpSession::drain() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->draining_ = true;
    if (self->idle_) self->close();
  });
}

void HttpSession::end_answer(Error e) {
  asio::post(socket_.get_executor(), [self = shared_from_this(), e = std::move(e)]() mutable {
    self->draining_ = true;
    self->end_with_ = std::move(e);
    self->wake();
  });
}

void HttpSession::close() {
  error_code ignored;
  socket_.close(ignored);
  deadline_.cancel();
  waker_.cancel();
}

void HttpSession::set_deadline(double seconds) {
  const uint64_t generation = ++deadline_generation_;
  deadline_.expires_after(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
  deadline_.async_wait([self = shared_from_this(), generation](error_code ec) {
    if (ec || generation != self->deadline_generation_) return;
    self->timed_out_ = true;
    self->gone_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
    self->wake();
  });
}

void HttpSession::wake() {
  woken_ = true;
  waker_.cancel();
}

asio::awaitable<void> HttpSession::wait_woken(double seconds) {
  if (!woken_) {
    waker_.expires_after(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
    co_await waker_.async_wait(kTuple);
  }
}

// While an answer is made the socket is read on: that is how a client that leaves is noticed at once.
void HttpSession::watch() {
  if (watching_ || gone_ || buffer_.size() >= kReadAhead) return;
  watching_ = true;
  socket_.async_read_some(buffer_.prepare(4096), asio::bind_cancellation_slot(watch_cancel_.slot(), [self = shared_from_this()](error_code ec, size_t n) {
                            self->on_watched(ec, n);
                          }));
}

void HttpSession::on_watched(error_code ec, size_t n) {
  watching_ = false;
  buffer_.commit(n);
  if (ec == asio::error::operation_aborted) return wake();
  if (ec) {
    gone_ = true;
    return wake();
  }
  if (!unwatch_) watch();
}

asio::awaitable<void> HttpSession::stop_watching() {
  // The read may have ended already and its handler wait behind this one: it must not begin another.
  unwatch_ = true;
  watch_cancel_.emit(asio::cancellation_type::all);
  while (watching_) {
    woken_ = false;
    co_await wait_woken(1);
  }
  unwatch_ = false;
}

asio::awaitable<void> HttpSession::run() {
  for (;;) {
    Parser parser;
    parser.header_limit(static_cast<std::uint32_t>(context_.options.header_limit));
    parser.body_limit(context_.options.body_limit);
    const bool have = co_await read_request(parser);
    if (!have) break;
    HttpCall call;
    keep_alive_ = parser.get().keep_alive() && !draining_ && !once_;
    if (!to_call(parser, call)) {
      co_await refuse(400, "the request target is malformed", "send an absolute path");
      break;
    }
    co_await answer(std::move(call));
    if (!keep_alive_ || gone_ || draining_) break;
  }
  count_body(0);
  // A client that is still sending must get the answer before the reset that closing would cause.
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  set_deadline(2);
  char sink[4096];
  for (size_t drained = 0; !ignored && drained < context_.options.body_limit * 2;) {
    const auto [ec, n] = co_await socket_.async_read_some(asio::buffer(sink), kTuple);
    if (ec) break;
    drained += n;
  }
  close();
}

asio::awaitable<bool> HttpSession::await_first_byte() {
  idle_ = true;
  if (draining_) co_return false;
  set_deadline(context_.options.keep_alive_s);
  while (buffer_.size() == 0) {
    const auto [ec, n] = co_await socket_.async_read_some(buffer_.prepare(4096), kTuple);
    buffer_.commit(n);
    if (ec) co_return false;
  }
  idle_ = false;
  co_return true;
}

asio::awaitable<bool> HttpSession::read_request(Parser& parser) {
  const bool begun = co_await await_first_byte();
  if (!begun) co_return false;
  set_deadline(context_.options.read_timeout_s);
  const auto [ec, n] = co_await http::async_read_header(socket_, buffer_, parser, kTuple);
  clear_deadline();
  if (ec == http::error::end_of_stream || ec == http::error::partial_message) co_return false;
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow) {
    co_await refuse(431, fmt::format("the request's header has more than {} bytes", context_.options.header_limit), "send fewer headers");
    co_return false;
  }
  if (ec == http::error::body_limit) {
    co_await refuse(413, fmt::format("the request's body has more than {} bytes", context_.options.body_limit), "send a shorter one, or raise --max-body-mb");
    co_return false;
  }
  if (timed_out_) {
    timed_out_ = gone_ = false;
    co_await refuse(408, "the request did not arrive in time", "send it at once");
    co_return false;
  }
  if (ec && ec.category() == http::make_error_code(http::error::bad_method).category()) {
    co_await refuse(400, "the request is not valid HTTP: " + ec.message(), "send HTTP/1.1");
    co_return false;
  }
  if (ec) co_return false;
  const bool whole = co_await read_body(parser);
  co_return whole;
}

bool HttpSession::count_body(size_t bytes) {
  const int64_t change = int64_t(bytes) - counted_;
  counted_ = int64_t(bytes);
  return context_.body_bytes.fetch_add(change) + change <= int64_t(context_.options.all_bodies_limit) || change <= 0;
}

asio::awaitable<bool> HttpSession::read_body(Parser& parser) {
  if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    const bool written = co_await write_all("HTTP/1.1 100 Continue\r\n\r\n");
    if (!written) co_return false;
  }
  while (!parser.is_done()) {
    set_deadline(context_.options.read_timeout_s);
    const auto [ec, n] = co_await http::async_read_some(socket_, buffer_, parser, kTuple);
    clear_deadline();
    if (ec == http::error::body_limit) {
      co_await refuse(413, fmt::format("the request's body has more than {} bytes", context_.options.body_limit), "send a shorter one, or raise --max-body-mb");
      co_return false;
    }
    if (timed_out_) {
      timed_out_ = gone_ = false;
      co_await refuse(408, "the request's body did not arrive in time", "send it at once");
      co_return false;
    }
    if (ec && ec.category() == http::make_error_code(http::error::bad_method).category() && ec != http::error::partial_message &&
        ec != http::error::end_of_stream) {
      co_await refuse(400, "the request's body is malformed: " + ec.message(), "send valid HTTP/1.1");
      co_return false;
    }
    if (ec) co_return false;
    if (!count_body(parser.get().body().size())) {
      co_await refuse(503, "too many large requests are arriving at once", "send the request again later");
      co_return false;
    }
  }
  co_return true;
}

bool HttpSession::to_call(Parser& parser, HttpCall& call) {
  auto& request = parser.get();
  call.method = std::string(request.method_string());
  chunked_ = request.version() >= 11;
  head_only_ = call.method == "HEAD";
  if (head_only_) call.method = "GET";
  for (const auto& field : request) call.headers.emplace_back(lower(field.name_string()), std::string(field.value()));
  origin_ = std::string(call.header("origin"));
  request_id_ = std::string(call.header("x-request-id"));
  call.body = std::move(request.body());
  return split_target(request.target(), call.path, call.query);
}

asio::awaitable<Reply> HttpSession::dispatch(HttpCall& call) {
  if (call.method == "OPTIONS") co_return HttpResponse{.status = 200, .headers = preflight_headers(call)};
  if (context_.handler.quick(call)) co_return context_.handler.handle(std::move(call));
  asio::thread_pool& pool = call.body.size() > context_.options.heavy_body ? context_.heavy : context_.workers;
  Reply reply = co_await asio::co_spawn(pool, on_worker(&context_.handler, &call), asio::use_awaitable);
  co_return reply;
}

asio::awaitable<void> HttpSession::answer(HttpCall call) {
  const auto begin = Clock::now();
  const std::string method = call.method, path = call.path;
  status_ = 0;
  watch();
  Reply reply = co_await dispatch(call);
  count_body(0);  // the handler is done with it
  bool ok = true;
  if (auto* pending = std::get_if<std::unique_ptr<Pending>>(&reply)) {
    ok = co_await serve_pending(**pending);
    pending_ = nullptr;
    if (!ok) (*pending)->abandoned();
    pending->reset();
  } else {
    ok = co_await write_response(std::get<HttpResponse>(reply));
  }
  if (!ok) keep_alive_ = false;
  co_await stop_watching();
  context_.handler.answered(method, path, ok ? status_ : 499, std::chrono::duration<double>(Clock::now() - begin).count());
}

asio::awaitable<bool> HttpSession::serve_pending(Pending& pending) {
  pending_ = &pending;
  pending.set_wake([weak = weak_from_this(), executor = socket_.get_executor()] {
    asio::post(executor, [weak] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      // A reader that is too slow is let go even while a write to it is waiting.
      if (self->pending_ != nullptr && self->pending_->overflowed()) self->close();
      self->wake();
    });
  });
  bool streamed = false;
  auto last_event = Clock::now();
  for (;;) {
    woken_ = false;
    if (gone_) co_return false;
    if (end_with_) pending.fail(*end_with_);
    std::string events;
    const Pending::State state = pending.pump(events);
    if (state == Pending::State::broken) co_return false;
    const double quiet = std::chrono::duration<double>(Clock::now() - last_event).count();
    if (events.empty() && pending.streaming() && state == Pending::State::running && quiet >= context_.options.heartbeat_s) events = ": waiting\n\n";
    if (!events.empty()) {
      bool ok = true;
      if (!streamed) ok = co_await begin_stream();
      streamed = true;
      if (ok) ok = co_await write_events(events);
      if (!ok) co_return false;
      last_event = Clock::now();
    }
    if (state == Pending::State::finished) break;
    co_await wait_woken(context_.options.heartbeat_s);
  }
  if (!streamed) {
    const HttpResponse response = pending.response();
    const bool written = co_await write_response(response);
    co_return written;
  }
  if (!chunked_) co_return true;
  const bool written = co_await write_all("0\r\n\r\n");
  co_return written;
}

asio::awaitable<bool> HttpSession::begin_stream() {
  if (!chunked_) keep_alive_ = false;  // HTTP/1.0: the end of the connection is the end of the stream
  const std::string text = head(200, "text/event-stream; charset=utf-8", std::nullopt, {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}});
  const bool written = co_await write_all(text);
  co_return written;
}

asio::awaitable<bool> HttpSession::write_events(std::string& events) {
  const std::string framed = chunked_ ? fmt::format("{:x}\r\n{}\r\n", events.size(), events) : std::move(events);
  const bool written = co_await write_all(framed);
  co_return written;
}

std::string HttpSession::head(int status, std::string_view content_type, std::optional<size_t> length, const Headers& extra) const {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\nServer: isotope\r\n", status, std::string_view(http::obsolete_reason(http::int_to_status(unsigned(status)))));
  const auto field = [&out](std::string_view name, std::string_view value) { fmt::format_to(std::back_inserter(out), "{}: {}\r\n", name, value); };
  if (!content_type.empty()) field("Content-Type", content_type);
  if (length) {
    field("Content-Length", std::to_string(*length));
  } else if (chunked_) {
    field("Transfer-Encoding", "chunked");
  }
  field("Connection", keep_alive_ ? "keep-alive" : "close");
  if (!request_id_.empty()) field("X-Request-Id", request_id_);
  const std::string allowed = allowed_origin(context_.options.allowed_origins, origin_);
  if (!allowed.empty()) field("Access-Control-Allow-Origin", allowed);
  for (const auto& [name, value] : extra) field(name, value);
  out += "\r\n";
  return out;
}

asio::awaitable<bool> HttpSession::write_response(const HttpResponse& r) {
  status_ = r.status;
  std::string text = head(r.status, r.body.empty() ? "" : r.content_type, r.body.size(), r.headers);
  if (!head_only_) text += r.body;
  const bool written = co_await write_all(text);
  co_return written;
}

asio::awaitable<bool> HttpSession::write_all(std::string_view data) {
  if (status_ == 0) status_ = 200;
  while (!data.empty()) {
    set_deadline(context_.options.write_timeout_s);
    const auto [ec, n] = co_await socket_.async_write_some(asio::buffer(data.data(), data.size()), kTuple);
    clear_deadline();
    if (ec || gone_) {
      gone_ = true;
      co_return false;
    }
    data.remove_prefix(n);
  }
  co_return true;
}

asio::awaitable<void> HttpSession::refuse(int status, std::string what, std::string remedy) {
  keep_alive_ = false;
  count_body(0);
  const HttpResponse response = context_.handler.refusal(status, what, remedy);
  co_await write_response(response);
  context_.handler.answered("other", "other", status, 0);
}

}  // namespace isotope::serve
