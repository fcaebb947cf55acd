#include "support/http_client.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace isotope::test {

HttpClient::HttpClient(int port) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(uint16_t(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) close();
}

HttpClient::~HttpClient() { close(); }

void HttpClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void HttpClient::set_receive_buffer(int bytes) { ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes); }

bool HttpClient::send(const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (n <= 0) return false;
    at += size_t(n);
  }
  return true;
}

bool HttpClient::fill(double seconds) {
  pollfd p{fd_, POLLIN, 0};
  if (fd_ < 0 || ::poll(&p, 1, int(seconds * 1000)) <= 0) return false;
  char chunk[65536];
  const ssize_t n = ::recv(fd_, chunk, sizeof chunk, 0);
  if (n <= 0) return false;
  buffer_.append(chunk, size_t(n));
  return true;
}

std::string HttpClient::read_some(double seconds) {
  if (buffer_.empty()) fill(seconds);
  return std::exchange(buffer_, {});
}

HttpReply HttpClient::read(bool head_only, double seconds) {
  HttpReply r;
  size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill(seconds)) return r;
  }
  const std::string head = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  r.status = std::atoi(head.c_str() + head.find(' '));
  for (size_t at = head.find("\r\n") + 2; at < head.size();) {
    const size_t stop = head.find("\r\n", at), colon = head.find(':', at);
    std::string name = head.substr(at, colon - at);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    r.headers[name] = head.substr(colon + 2, stop - colon - 2);
    at = stop + 2;
  }
  r.complete = true;
  if (head_only || r.status == 100) return r;
  r.chunked = r.headers.count("transfer-encoding") != 0;
  if (!r.chunked && r.headers.count("content-length") == 0) {
    while (fill(seconds)) {}
    r.body = std::exchange(buffer_, {});
    return r;
  }
  if (!r.chunked) {
    const size_t n = size_t(std::atoll(r.headers["content-length"].c_str()));
    while (buffer_.size() < n && fill(seconds)) {}
    r.complete = buffer_.size() >= n;
    r.body = buffer_.substr(0, n);
    buffer_.erase(0, r.body.size());
    return r;
  }
  r.complete = false;
  for (;;) {
    size_t line = 0;
    while ((line = buffer_.find("\r\n")) == std::string::npos) {
      if (!fill(seconds)) return r;
    }
    const size_t n = std::strtoul(buffer_.c_str(), nullptr, 16);
    while (buffer_.size() < line + 2 + n + 2) {
      if (!fill(seconds)) return r;
    }
    r.body += buffer_.substr(line + 2, n);
    buffer_.erase(0, line + 2 + n + 2);
    if (n == 0) {
      r.complete = true;
      return r;
    }
  }
}

std::string HttpClient::request(const std::string& method, const std::string& path, const std::string& body,
                                const std::vector<std::pair<std::string, std::string>>& headers) {
  std::string out = method + " " + path + " HTTP/1.1\r\nHost: test\r\n";
  bool typed = false;
  for (const auto& [name, value] : headers) {
    out += name + ": " + value + "\r\n";
    typed = typed || name == "Content-Type";
  }
  if (!body.empty() && !typed) out += "Content-Type: application/json\r\n";
  if (method == "POST") out += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return out + "\r\n" + body;
}

HttpReply HttpClient::fetch(int port, const std::string& method, const std::string& path, const std::string& body,
                            const std::vector<std::pair<std::string, std::string>>& headers) {
  HttpClient c(port);
  c.send(request(method, path, body, headers));
  return c.read(method == "HEAD");
}

}  // namespace isotope::test
