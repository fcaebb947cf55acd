#include "engine/step_group.h"

#include <algorithm>
#include <type_traits>

namespace isotope::engine {

ThreadGroup::ThreadGroup(int ranks) : wake_(size_t(ranks)), present_(size_t(ranks), true), members_(ranks) {
  const auto prepare = [&](auto& x) {
    x.in.resize(size_t(ranks));
    x.out.resize(size_t(ranks));
    x.arrived.assign(size_t(ranks), false);
  };
  prepare(reports_);
  prepare(costs_);
}

void ThreadGroup::join(int rank, Wake wake) {
  const std::lock_guard lock(mutex_);
  wake_[size_t(rank)] = std::move(wake);
}

template <class T>
void ThreadGroup::finish_if_complete(Exchange<T>& x) {
  if (x.count == 0 || x.count < members_) return;
  for (size_t r = 0; r < x.in.size(); ++r) x.out[r] = x.arrived[r] ? x.in[r] : T{};
  std::fill(x.arrived.begin(), x.arrived.end(), false);
  x.count = 0;
  ++x.round;
  changed_.notify_all();
}

template <class T>
std::span<const T> ThreadGroup::meet(Exchange<T>& x, int rank, const T& mine) {
  std::unique_lock lock(mutex_);
  x.in[size_t(rank)] = mine;
  x.arrived[size_t(rank)] = true;
  const bool first = ++x.count == 1;
  const uint64_t round = x.round;
  finish_if_complete(x);
  if constexpr (std::is_same_v<T, sched::RankReport>) {  // whoever has reported waits for the costs anyway
    for (size_t r = 0; first && x.round == round && r < wake_.size(); ++r)
      if (int(r) != rank && present_[r] && wake_[r]) wake_[r](round);
  }
  changed_.wait(lock, [&] { return x.round != round; });
  return x.out;
}

template std::span<const sched::RankReport> ThreadGroup::meet(Exchange<sched::RankReport>&, int, const sched::RankReport&);
template std::span<const double> ThreadGroup::meet(Exchange<double>&, int, const double&);

bool ThreadGroup::called(int rank) const {
  const std::lock_guard lock(mutex_);
  return reports_.count > 0 && !reports_.arrived[size_t(rank)];
}

void ThreadGroup::leave(int rank) {
  const std::lock_guard lock(mutex_);
  if (!present_[size_t(rank)]) return;
  present_[size_t(rank)] = false;
  --members_;
  finish_if_complete(reports_);
  finish_if_complete(costs_);
}

}  // namespace isotope::engine
