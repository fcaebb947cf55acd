// Short messages of whole numbers between the processes of a group, over a connected socket. Both ends run on machines of one byte order.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "isotope/result.h"

namespace isotope::engine {

/// A connected TCP socket. Sending is safe from several threads, receiving is one thread's.
class FrameSocket {
 public:
  using Frame = std::vector<int64_t>;  ///< the first number says what it is

  explicit FrameSocket(int fd);  ///< takes it
  ~FrameSocket();
  FrameSocket(const FrameSocket&) = delete;
  FrameSocket& operator=(const FrameSocket&) = delete;

  bool send(const Frame&);
  /// False at the end of the connection and for anything that is no frame: over kMostNumbers numbers, or none.
  bool receive(Frame&);
  void set_patience(int ms);  ///< of receive(); 0 = for ever
  void shut();  ///< any thread: ends what either side waits for

  static constexpr size_t kMostNumbers = 1 << 16;

 private:
  int fd_;
  std::mutex sending_;
};

/// Listens on a port of an address. A port that is taken is an error that names it; it is never replaced. Port 0 takes a free one.
Result<int> listen_tcp(const std::string& host, int port, const std::string& source);
int port_of(int listener);
/// The next connection, or -1 when none has come after so many milliseconds.
int accept_tcp(int listener, int patience_ms);
/// Tries until it succeeds or the time is over. An address that cannot be resolved fails at once.
Result<int> connect_tcp(const std::string& host, int port, int patience_ms, const std::string& source);

}  // namespace isotope::engine
