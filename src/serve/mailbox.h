// Carries token events from the engine thread to whoever writes the answer. Bounded: a reader that falls too far behind loses its request,
// never holds up the engine.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "isotope/engine.h"

namespace isotope::serve {

/// A TokenEvent that owns its data, and the index of the child request it belongs to.
struct Event {
  int child = 0;
  std::vector<int32_t> tokens;
  std::vector<TokenLogprob> logprobs;
  std::vector<std::vector<TokenLogprob>> top, prompt;
  FinishReason finish = FinishReason::none;
  int32_t stop_token = -1;
  std::optional<Error> error;

  static Event copy(int child, const TokenEvent& e);
  size_t bytes() const;
};

class Mailbox {
 public:
  explicit Mailbox(size_t limit_bytes) : limit_(limit_bytes) {}

  /// Any thread; never waits for the reader. Past the limit events are dropped and overflowed() holds.
  void push(Event e);
  std::vector<Event> take();
  bool overflowed() const;
  /// Called, on the pushing thread, when an empty box gets its first event. Must return at once.
  void set_wake(std::function<void()> wake);
  /// No event is kept and nobody is woken after return.
  void close();

 private:
  mutable std::mutex mutex_;
  std::vector<Event> events_;
  std::function<void()> wake_;
  size_t limit_, bytes_ = 0;
  bool overflowed_ = false, closed_ = false;
};

}  // namespace isotope::serve
