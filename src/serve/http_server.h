// HTTP/1.1 over TCP: keep-alive, limits, timeouts, server-sent events, clients that leave. What is answered is the Handler's business.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "isotope/result.h"
#include "serve/http_types.h"

namespace isotope::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8000;                        ///< 0: any free one
  int io_threads = 1, worker_threads = 2; ///< network; parsing, templates and tokenizing
  size_t heavy_body = 256u << 10;         ///< bodies from here on wait for each other, not for short ones
  size_t body_limit = 32u << 20;          ///< larger bodies get 413
  size_t all_bodies_limit = 512u << 20;   ///< of all bodies that are being received; past it new ones get 503
  size_t header_limit = 64u << 10;        ///< larger headers get 431
  double keep_alive_s = 75;               ///< an idle connection is closed
  double read_timeout_s = 60;             ///< a request that makes no progress is given up
  double write_timeout_s = 60;            ///< so is an answer nobody reads
  double heartbeat_s = 15;                ///< a quiet stream gets a comment line that often
  int max_connections = 4096;
  std::vector<std::string> allowed_origins = {"*"};   ///< CORS
  int send_buffer = 0;                    ///< bytes the kernel may hold for a slow reader; 0 = its own choice
};

class HttpServer {
 public:
  /// Binds, listens and starts the threads. The handler must outlive the server.
  static Result<std::unique_ptr<HttpServer>> listen(HttpOptions, Handler&);
  ~HttpServer();

  int port() const;
  /// "http://127.0.0.1:8000"
  std::string url() const;

  /// Closes the connections that wait for a request; answers under way go on. New connections get one answer each, so that the handler can
  /// tell clients why; nobody waits for them. Thread-safe, idempotent.
  void drain();
  /// Accepts no more connections, and answers under way end with this error. Call after drain().
  void end_answers(const Error&);
  /// True when no connection from before drain() is left, false when `seconds` have passed before that.
  bool wait_closed(double seconds);

  struct Impl;

 private:
  explicit HttpServer(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isotope::serve
