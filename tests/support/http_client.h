// A blocking HTTP/1.1 client for tests, so that the server is never tested against its own library.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace isotope::test {

struct HttpReply {
  int status = 0;                             ///< 0: no answer
  std::map<std::string, std::string> headers; ///< names in lower case
  std::string body;                           ///< chunks joined
  bool chunked = false, complete = false;
};

class HttpClient {
 public:
  explicit HttpClient(int port);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;

  bool connected() const { return fd_ >= 0; }
  bool send(const std::string& bytes);
  /// The next answer on this connection. Waits `seconds` for each piece.
  HttpReply read(bool head_only = false, double seconds = 120);
  /// Some bytes, or "" at the end or when nothing came in time.
  std::string read_some(double seconds = 120);
  void close();
  void set_receive_buffer(int bytes);

  static std::string request(const std::string& method, const std::string& path, const std::string& body,
                             const std::vector<std::pair<std::string, std::string>>& headers = {});
  /// One request on a fresh connection.
  static HttpReply fetch(int port, const std::string& method, const std::string& path, const std::string& body = {},
                         const std::vector<std::pair<std::string, std::string>>& headers = {});

 private:
  bool fill(double seconds);
  int fd_ = -1;
  std::string buffer_;
};

}  // namespace isotope::test
