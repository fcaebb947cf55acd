// Fair shares among keys (API keys or users): start-time fair queueing. Each key's requests are laid out one after the other on
// a common line of tokens, and whoever starts earliest on that line goes first. A key with one request therefore never waits
// behind the hundred of another, nobody starves, and a lone key sees first come, first served.
// Goyal, Vin, Cheng: "Start-time Fair Queuing", SIGCOMM 1996.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

namespace isotope::sched {

class FairShare {
 public:
  explicit FairShare(bool on) : on_(on) {}

  /// What a request is expected to cost, in tokens: its prompt and as much output as requests had lately, at most its limit.
  int64_t expected_cost(int64_t prompt, int64_t max_output) const;
  /// Place::share of a new request. Each call is answered by one finished() later. 0 when off.
  int64_t arrive(int priority, std::string_view key, int64_t cost);
  /// A request starts to run: the common line has moved on to it.
  void admitted(int priority, int64_t share);
  /// A request has ended, admitted or not; its key pays for what was used, not for what was expected.
  void finished(int priority, std::string_view key, int64_t charged, int64_t used);
  void observe_output(int64_t tokens);  ///< of a request that ended by itself

  size_t keys() const;  ///< remembered at the moment

 private:
  static constexpr size_t kRemembered = 1024;  ///< keys without a request that may be remembered at one priority
  struct Key {
    int64_t end = 0;  ///< where its last request ends on the line
    int alive = 0;
  };
  struct Level {
    int64_t now = 0;
    int64_t alive = 0;
    std::unordered_map<std::string, Key> keys;
  };
  static void forget_idle(Level&);

  bool on_;
  std::map<int, Level> levels_;  ///< by priority; those without a request are dropped
  double mean_output_ = 256;
};

}  // namespace isotope::sched
