// Whether streams may go on from the state that their last update left, or decode a window of tokens anew each time; and the audit that compares the two.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace isotope::text {

class Tokenizer;

struct DetokenizerStats {
  uint64_t calls = 0, reused = 0, audits = 0, mismatches = 0;
  bool on = false;
};

/// Any thread.
class DeltaReuse {
 public:
  /// What all streams share unless they are given another.
  static DeltaReuse& process();

  /// `mode`: auto, on or off. auto probes the tokenizer and gives the reason. After a failed audit it stays off. `log`: one line about the outcome; later, the one error when an audit fails.
  void configure(std::string_view mode, int64_t audit_every, const Tokenizer&, std::function<void(bool error, const std::string&)> log);

  bool on() const { return on_.load(std::memory_order_relaxed); }
  /// Counts an update; true if it is one to audit, which the first is.
  bool count_call() { return on() && calls_.fetch_add(1, std::memory_order_relaxed) % audit_every_ == 0; }
  void count_call_without_reuse() { calls_.fetch_add(1, std::memory_order_relaxed); }
  void count_reused() { reused_.fetch_add(1, std::memory_order_relaxed); }
  void count_audit() { audits_.fetch_add(1, std::memory_order_relaxed); }
  /// An audit failed: no stream reuses any more.
  void mismatch();
  void set(bool on, uint64_t audit_every) { on_ = on, audit_every_ = audit_every; }
  DetokenizerStats stats() const { return {calls_, reused_, audits_, mismatches_, on()}; }

 private:
  std::atomic<bool> on_{true};
  std::atomic<uint64_t> audit_every_{1000}, calls_{0}, reused_{0}, audits_{0}, mismatches_{0};
  std::mutex mutex_;
  std::function<void(bool, const std::string&)> log_;
};

/// Replays texts and random ids as streams of several update sizes with every update audited. "" if reuse, plain windows and the whole decode agree
/// everywhere and a spoiled update is noticed; else what went wrong. `compared`: texts that were not empty.
std::string probe_delta_reuse(const Tokenizer&, int64_t& compared);

}  // namespace isotope::text
