// What the HTTP server and the API say to each other. No sockets here, so the API is tested without a network.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "isotope/result.h"

namespace isotope::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpCall {
  std::string method;    ///< "GET", "POST" …; HEAD arrives as GET
  std::string path;      ///< percent-decoded, without the query
  std::string query;     ///< without '?'
  Headers headers;       ///< names in lower case
  std::string body;

  std::string_view header(std::string_view lower_case_name) const {
    for (const auto& [name, value] : headers) {
      if (name == lower_case_name) return value;
    }
    return {};
  }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;
};

/// An answer that is still being made. Used by one thread at a time; destruction cancels it.
class Pending {
 public:
  enum class State { running, finished, broken };  ///< broken: give up the connection
  virtual ~Pending() = default;
  /// Server-sent events rather than one body.
  virtual bool streaming() const = 0;
  /// `wake` may be called from any thread and returns at once; pump() is due after it.
  virtual void set_wake(std::function<void()> wake) = 0;
  /// Takes in what has happened; when streaming, appends the events to send now.
  virtual State pump(std::string& out) = 0;
  /// After `finished`: the body, when not streaming or when nothing has been streamed.
  virtual HttpResponse response() = 0;
  /// Ends the answer with an error; pump() then delivers it.
  virtual void fail(const Error&) = 0;
  /// The reader is too slow: pump() would say `broken`. Any time, any thread.
  virtual bool overflowed() const = 0;
  /// The client has gone: for the books only, destruction follows.
  virtual void abandoned() = 0;
};

using Reply = std::variant<HttpResponse, std::unique_ptr<Pending>>;

class Handler {
 public:
  virtual ~Handler() = default;
  /// Answered at once on the network thread: must not block or compute.
  virtual bool quick(const HttpCall&) const = 0;
  /// Any thread. Never throws.
  virtual Reply handle(HttpCall&&) = 0;
  /// Refusals that the server makes itself (malformed, too large), in the API's error shape.
  virtual HttpResponse refusal(int status, const std::string& what, const std::string& remedy) const = 0;
  /// After every answer.
  virtual void answered(std::string_view method, std::string_view path, int status, double seconds) = 0;
};

}  // namespace isotope::serve
