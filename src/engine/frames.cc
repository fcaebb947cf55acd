#include "engine/frames.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <system_error>
#include <thread>

namespace isotope::engine {

namespace {

using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

std::string reason(int error) {
  return std::generic_category().message(error);
}

Result<Addresses> resolve(const std::string& host, int port, int flags, const std::string& source) {
  addrinfo wish{};
  wish.ai_socktype = SOCK_STREAM;
  wish.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wish, &found);
  if (error != 0)
    return fail(Code::invalid_argument, fmt::format("'{}' cannot be resolved: {}", host, ::gai_strerror(error)), source, "name an address of rank 0's machine");
  return Addresses(found, &::freeaddrinfo);
}

void set(int fd, int level, int option, int value) {
  (void)::setsockopt(fd, level, option, &value, sizeof value);
}

/// The whole of it, or false.
bool transfer(int fd, char* data, size_t size, bool sends) {
  while (size > 0) {
    const ssize_t n = sends ? ::send(fd, data, size, MSG_NOSIGNAL) : ::recv(fd, data, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= size_t(n);
  }
  return true;
}

}  // namespace

FrameSocket::FrameSocket(int fd) : fd_(fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);  // a machine that has vanished says nothing
}

FrameSocket::~FrameSocket() {
  ::close(fd_);
}

bool FrameSocket::send(const Frame& f) {
  const std::lock_guard lock(sending_);
  Frame all{int64_t(f.size())};
  all.insert(all.end(), f.begin(), f.end());
  return transfer(fd_, reinterpret_cast<char*>(all.data()), all.size() * sizeof(int64_t), true);
}

bool FrameSocket::receive(Frame& f) {
  int64_t n = 0;
  if (!transfer(fd_, reinterpret_cast<char*>(&n), sizeof n, false) || n < 1 || n > int64_t(kMostNumbers)) return false;
  f.resize(size_t(n));
  return transfer(fd_, reinterpret_cast<char*>(f.data()), f.size() * sizeof(int64_t), false);
}

void FrameSocket::set_patience(int ms) {
  const timeval t{.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
  (void)::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

void FrameSocket::shut() {
  (void)::shutdown(fd_, SHUT_RDWR);
}

Result<int> listen_tcp(const std::string& host, int port, const std::string& source) {
  ISO_TRY(const Addresses found, resolve(host, port, AI_PASSIVE, source));
  int error = 0;
  for (const addrinfo* a = found.get(); a; a = a->ai_next) {
    const int fd = ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) continue;
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (::bind(fd, a->ai_addr, a->ai_addrlen) == 0 && ::listen(fd, 128) == 0) return fd;
    error = errno;
    ::close(fd);
  }
  return fail(Code::invalid_argument, fmt::format("cannot listen on {}, port {}: {}", host, port, reason(error)), source, "choose a free port of this machine for all ranks");
}

int port_of(int listener) {
  sockaddr_storage a{};
  socklen_t size = sizeof a;
  if (::getsockname(listener, reinterpret_cast<sockaddr*>(&a), &size) != 0) return 0;
  return ntohs(a.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(a).sin6_port : reinterpret_cast<sockaddr_in&>(a).sin_port);
}

int accept_tcp(int listener, int patience_ms) {
  pollfd p{.fd = listener, .events = POLLIN, .revents = 0};
  return ::poll(&p, 1, std::max(0, patience_ms)) > 0 ? ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC) : -1;
}

Result<int> connect_tcp(const std::string& host, int port, int patience_ms, const std::string& source) {
  ISO_TRY(const Addresses found, resolve(host, port, 0, source));
  const auto end = Clock::now() + std::chrono::milliseconds(patience_ms);
  for (int error = 0;;) {
    for (const addrinfo* a = found.get(); a; a = a->ai_next) {
      const int fd = ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
      if (fd < 0) continue;
      if (::connect(fd, a->ai_addr, a->ai_addrlen) == 0) return fd;
      error = errno;
      ::close(fd);
    }
    if (Clock::now() >= end)
      return fail(Code::unavailable, fmt::format("nobody answers at {}, port {}, for {:.3g} s: {}", host, port, patience_ms * 1e-3, reason(error)), source,
                  "start rank 0 there, or name its address and port");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace isotope::engine
