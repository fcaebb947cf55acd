#include "serve/http_server.h"

#include <pthread.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "serve/http_session.h"

namespace isotope::serve {

struct HttpServer::Impl {
  Impl(HttpOptions o, Handler& h) : options(std::move(o)), handler(h), workers(size_t(std::max(1, options.worker_threads))) {}
  ~Impl();

  Result<void> bind();
  void start_threads();
  asio::awaitable<void> accept_loop();
  void add(Socket socket);
  std::vector<std::shared_ptr<HttpSession>> living();

  HttpOptions options;
  Handler& handler;
  std::atomic<int64_t> body_bytes{0};   // before the context: sessions end with it
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> guard{io.get_executor()};
  asio::thread_pool workers, heavy{1};
  Strand accepting{io.get_executor()};   // closing the acceptor must not race with accepting
  tcp::acceptor acceptor{accepting};
  asio::steady_timer pause{accepting};
  tcp::endpoint endpoint;
  std::vector<std::thread> threads;

  std::mutex mutex;
  std::condition_variable none_left;
  std::vector<std::weak_ptr<HttpSession>> sessions;
  int open = 0, late_open = 0;   // late: since drain()
  bool draining = false;
};

HttpServer::Impl::~Impl() {
  guard.reset();
  io.stop();
  for (std::thread& t : threads) t.join();
  workers.stop();
  heavy.stop();
  workers.join();
  heavy.join();
}

Result<void> HttpServer::Impl::bind() {
  error_code ec;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive | tcp::resolver::numeric_service, ec);
  const std::string where = options.host + ":" + std::to_string(options.port);
  if (ec) return fail(Code::invalid_argument, "cannot resolve host '" + options.host + "': " + ec.message(), "--host", "give an address of this machine");
  for (const auto& entry : found) {
    endpoint = entry.endpoint();
    acceptor.close(ec);
    if (acceptor.open(endpoint.protocol(), ec)) continue;
    acceptor.set_option(asio::socket_base::reuse_address(true), ec);
    if (acceptor.bind(endpoint, ec)) continue;
    if (acceptor.listen(asio::socket_base::max_listen_connections, ec)) continue;
    endpoint = acceptor.local_endpoint(ec);
    return {};
  }
  if (ec == asio::error::address_in_use) {
    return fail(Code::unavailable, "address " + where + " is already in use", "--port", "stop the other server, or choose another --port (0 takes a free one)");
  }
  return fail(Code::unavailable, "cannot listen on " + where + ": " + ec.message(), "--host and --port", "choose another address");
}

void HttpServer::Impl::start_threads() {
  asio::co_spawn(accepting, accept_loop(), asio::detached);
  for (int i = 0; i < std::max(1, options.io_threads); ++i) {
    threads.emplace_back([this] {
      pthread_setname_np(pthread_self(), "iso-http");
      io.run();
    });
  }
}

std::vector<std::shared_ptr<HttpSession>> HttpServer::Impl::living() {
  const std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<HttpSession>> out;
  for (const auto& weak : sessions) {
    if (auto s = weak.lock()) out.push_back(std::move(s));
  }
  return out;
}

void HttpServer::Impl::add(Socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  if (options.send_buffer > 0) socket.set_option(asio::socket_base::send_buffer_size(options.send_buffer), ignored);
  std::unique_lock lock(mutex);
  const bool late = draining;
  ++(late ? late_open : open);
  const SessionContext context{options, handler, workers, heavy, body_bytes, [this, late] {
                                 const std::lock_guard closing(mutex);
                                 if (--(late ? late_open : open) == 0) none_left.notify_all();
                               }};
  auto session = std::make_shared<HttpSession>(std::move(socket), context);
  std::erase_if(sessions, [](const auto& weak) { return weak.expired(); });
  sessions.push_back(session);
  lock.unlock();
  session->start(late);
}

asio::awaitable<void> HttpServer::Impl::accept_loop() {
  constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
  for (;;) {
    bool full = false;
    {
      const std::lock_guard lock(mutex);
      full = open + late_open >= options.max_connections;
    }
    Socket socket(asio::make_strand(io));
    error_code failure;
    if (!full) {
      const auto [ec] = co_await acceptor.async_accept(socket, kTuple);
      failure = ec;
    }
    if (!full && !failure) {
      add(std::move(socket));
      continue;
    }
    if (!acceptor.is_open()) co_return;
    // Out of descriptors or at the limit: connections wait in the kernel's queue until others have closed.
    pause.expires_after(std::chrono::milliseconds(50));
    co_await pause.async_wait(kTuple);
  }
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::listen(HttpOptions options, Handler& handler) {
  auto impl = std::make_unique<Impl>(std::move(options), handler);
  ISO_CHECK_OK(impl->bind());
  impl->start_threads();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int HttpServer::port() const { return impl_->endpoint.port(); }

std::string HttpServer::url() const {
  const auto address = impl_->endpoint.address();
  std::string host = address.is_unspecified() ? impl_->options.host : address.to_string();
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return "http://" + host + ":" + std::to_string(port());
}

void HttpServer::drain() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->draining = true;
  }
  for (const auto& s : impl_->living()) s->drain();
}

void HttpServer::end_answers(const Error& e) {
  asio::post(impl_->accepting, [impl = impl_.get()] {
    error_code ignored;
    impl->acceptor.close(ignored);
    impl->pause.cancel();
  });
  for (const auto& s : impl_->living()) s->end_answer(e);
}

bool HttpServer::wait_closed(double seconds) {
  std::unique_lock lock(impl_->mutex);
  return impl_->none_left.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return impl_->open == 0; });
}

}  // namespace isotope::serve
