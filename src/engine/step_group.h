// Where the loops of ranks that step together meet, twice a step at most: each puts a message and gets those of all. A rank without work takes part when
// another one calls for it; when nobody has work nobody calls, and all sleep.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "sched/lockstep.h"

namespace isotope::engine {

class StepGroup {
 public:
  /// Takes the number of the round in which the rank is wanted, from 0. Any thread.
  using Wake = std::function<void(uint64_t round)>;

  virtual ~StepGroup() = default;
  /// How a rank is woken to take part, until it leaves. Before its loop starts.
  virtual void join(int rank, Wake) = 0;
  /// Puts this rank's report, waits for everybody's. Valid until this rank's next call.
  virtual std::span<const sched::RankReport> reports(int rank, const sched::RankReport& mine) = 0;
  /// Likewise what its prompts will cost. Either all ranks call it after reports(), or none does.
  virtual std::span<const double> costs(int rank, double mine) = 0;
  /// Whether somebody waits for this rank's report.
  virtual bool called(int rank) const = 0;
  /// It takes no part any more; those that wait for it go on.
  virtual void leave(int rank) = 0;
};

/// Of threads of one process.
class ThreadGroup final : public StepGroup {
 public:
  explicit ThreadGroup(int ranks);

  void join(int rank, Wake) override;
  std::span<const sched::RankReport> reports(int rank, const sched::RankReport& mine) override { return meet(reports_, rank, mine); }
  std::span<const double> costs(int rank, double mine) override { return meet(costs_, rank, mine); }
  bool called(int rank) const override;
  void leave(int rank) override;

 private:
  /// One kind of message. All members are guarded by the group's mutex.
  template <class T>
  struct Exchange {
    std::vector<T> in, out;
    std::vector<char> arrived;
    int count = 0;
    uint64_t round = 0;
  };
  template <class T>
  std::span<const T> meet(Exchange<T>&, int rank, const T& mine);
  template <class T>
  void finish_if_complete(Exchange<T>&);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Wake> wake_;
  std::vector<char> present_;
  int members_;
  Exchange<sched::RankReport> reports_;
  Exchange<double> costs_;
};

}  // namespace isotope::engine
