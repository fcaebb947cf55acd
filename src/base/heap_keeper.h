// Books of long-lived heap objects: what lives, of which kind, for whom, and whether anything outlived what it was for. C++ frees what its owner lets go of, so
// there is nothing to collect in the normal course; a sweep looks for what should be gone and is not, gives back memory that finished objects still hold, and
// trims the allocator. Generations, thresholds and the freeze are those of a tracing collector, so that its settings and dashboards keep their meaning.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace isotope::base {

class HeapKeeper;

/// Enters the object that holds it into the books; the last member, so that it leaves them first. Neither copied nor moved.
class Tracked {
 public:
  /// Texts are static. `owner` is the subsystem.
  Tracked(std::string_view type, std::string_view owner);
  ~Tracked();
  Tracked(const Tracked&) = delete;
  Tracked& operator=(const Tracked&) = delete;

  /// What the object was for is over. With `reclaim` it stays on purpose, and a sweep may call that, once, to give back what memory is no longer needed (true:
  /// there was some); without, whoever still holds it after the next sweep has leaked it. `reclaim` runs on any thread, under the keeper's lock.
  void retire(std::function<bool()> reclaim = {});

 private:
  friend class HeapKeeper;
  std::string_view type_, owner_;
  Tracked *previous_ = nullptr, *next_ = nullptr;
  uint8_t list_ = 0;
  bool retired_ = false, suspected_ = false, settled_ = false;
  std::function<bool()> reclaim_;
};

struct GcThresholds {
  int64_t young = 700;  ///< objects entered less objects left before a young sweep
  int64_t middle = 10;  ///< young sweeps for a middle one
  int64_t full = 10;    ///< middle sweeps for a full one
};

struct GcGeneration {
  int64_t collections = 0, collected = 0, uncollectable = 0;
  int64_t size = 0;  ///< objects in it now
};

struct HeapCensus {
  struct Type {
    std::string_view type, owner;
    int64_t count = 0;
  };
  std::vector<Type> types;  ///< the most frequent first
  std::array<GcGeneration, 3> generations;
  int64_t frozen = 0, tracked = 0;
  GcThresholds thresholds;
};

class HeapKeeper {
 public:
  static constexpr int kGenerations = 3;
  /// The one of this process.
  static HeapKeeper& process();

  /// `name` of the process, for the lines of `debug`: one for each sweep.
  void configure(const GcThresholds&, bool debug, std::string name);
  /// One full sweep; then what lives now is never swept again. Logs how many. Arms a warning for the first object that a later sweep reclaims.
  void freeze();
  void unfreeze();
  /// Sweeps the oldest generation whose threshold has been reached, if any. Cheap when none is. Any thread but the engine's own: it may take milliseconds.
  void run_due();
  void sweep(int generation);

  HeapCensus census() const;
  std::array<GcGeneration, 3> counts() const;  ///< without walking anything
  GcThresholds thresholds() const;

 private:
  friend class Tracked;
  struct List {
    Tracked* head = nullptr;
    int64_t size = 0;
  };
  void enter(Tracked&);
  void leave(Tracked&);
  void link(Tracked&, uint8_t list);
  void unlink(Tracked&);
  void sweep_locked(int generation);
  int64_t inspect(Tracked&, int generation);

  mutable std::mutex mutex_;
  std::array<List, kGenerations + 1> lists_;  ///< the last one is frozen
  std::array<GcGeneration, kGenerations> counts_;
  std::array<int64_t, kGenerations> pending_{};  ///< towards each threshold
  GcThresholds thresholds_;
  bool debug_ = false, watching_ = false;
  std::string name_ = "isotope";
};

}  // namespace isotope::base
