#include "base/heap_keeper.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "base/log.h"

namespace isotope::base {

namespace {
constexpr uint8_t kFrozen = HeapKeeper::kGenerations;

/// Outside the lock: it takes milliseconds, and every object that is made or freed meanwhile needs the books.
void trim(int generation) {
  if (generation + 1 == HeapKeeper::kGenerations) malloc_trim(0);
}
}  // namespace

Tracked::Tracked(std::string_view type, std::string_view owner) : type_(type), owner_(owner) {
  HeapKeeper::process().enter(*this);
}

Tracked::~Tracked() {
  HeapKeeper::process().leave(*this);
}

void Tracked::retire(std::function<bool()> reclaim) {
  const std::lock_guard lock(HeapKeeper::process().mutex_);
  retired_ = true;
  reclaim_ = std::move(reclaim);
}

// Never destroyed: objects of static life may leave the books after main has ended.
HeapKeeper& HeapKeeper::process() {
  static HeapKeeper& keeper = *new HeapKeeper;
  return keeper;
}

void HeapKeeper::configure(const GcThresholds& t, bool debug, std::string name) {
  const std::lock_guard lock(mutex_);
  thresholds_ = t;
  debug_ = debug;
  name_ = std::move(name);
}

void HeapKeeper::link(Tracked& t, uint8_t list) {
  List& l = lists_[list];
  t.list_ = list;
  t.previous_ = nullptr;
  t.next_ = l.head;
  if (l.head) l.head->previous_ = &t;
  l.head = &t;
  ++l.size;
}

void HeapKeeper::unlink(Tracked& t) {
  List& l = lists_[t.list_];
  (t.previous_ ? t.previous_->next_ : l.head) = t.next_;
  if (t.next_) t.next_->previous_ = t.previous_;
  --l.size;
}

void HeapKeeper::enter(Tracked& t) {
  const std::lock_guard lock(mutex_);
  link(t, 0);
  ++pending_[0];
}

void HeapKeeper::leave(Tracked& t) {
  const std::lock_guard lock(mutex_);
  unlink(t);
  pending_[0] = std::max<int64_t>(0, pending_[0] - 1);
}

/// How many objects it was for the books: 1 if memory was given back.
int64_t HeapKeeper::inspect(Tracked& t, int generation) {
  if (!t.retired_ || t.settled_) return 0;
  if (t.reclaim_) {
    t.settled_ = true;
    const bool gave = t.reclaim_();
    t.reclaim_ = {};
    return gave ? 1 : 0;
  }
  if (!std::exchange(t.suspected_, true)) return 0;  // it may be on its way out
  t.settled_ = true;
  if (++counts_[size_t(generation)].uncollectable == 1)
    log(LogLevel::warning, "[gc] {}: a {} of {} is still there although its request has ended; see /debug/gc_census", name_, t.type_, t.owner_);
  return 0;
}

void HeapKeeper::sweep_locked(int generation) {
  const auto start = std::chrono::steady_clock::now();
  GcGeneration& count = counts_[size_t(generation)];
  const auto target = uint8_t(std::min(generation + 1, kGenerations - 1));
  int64_t reclaimed = 0;
  for (int g = generation; g >= 0; --g) {
    Tracked* next = nullptr;
    for (Tracked* t = lists_[size_t(g)].head; t; t = next) {
      next = t->next_;
      reclaimed += inspect(*t, generation);
      if (t->list_ == target) continue;
      unlink(*t);
      link(*t, target);
    }
  }
  ++count.collections;
  count.collected += reclaimed;
  for (int g = 0; g <= generation; ++g) pending_[size_t(g)] = 0;
  if (generation + 1 < kGenerations) ++pending_[size_t(generation) + 1];
  if (watching_ && reclaimed > 0) {
    watching_ = false;
    log(LogLevel::warning, "[gc] {}: a sweep has reclaimed {} objects for the first time since the freeze", name_, reclaimed);
  }
  if (!debug_) return;
  int64_t tracked = 0;
  for (const List& l : lists_) tracked += l.size;
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  log(LogLevel::info, "[gc] {}: gen-{} took {:.3f} ms, reclaimed {} of {} tracked", name_, generation, ms, reclaimed, tracked);
}

void HeapKeeper::sweep(int generation) {
  generation = std::clamp(generation, 0, kGenerations - 1);
  {
    const std::lock_guard lock(mutex_);
    sweep_locked(generation);
  }
  trim(generation);
}

void HeapKeeper::run_due() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || pending_[0] <= thresholds_.young) return;
  const int64_t limits[] = {thresholds_.young, thresholds_.middle, thresholds_.full};
  int due = 0;
  while (due + 1 < kGenerations && pending_[size_t(due) + 1] > limits[due + 1]) ++due;
  sweep_locked(due);
  lock.unlock();
  trim(due);
}

void HeapKeeper::freeze() {
  const std::lock_guard lock(mutex_);
  sweep_locked(kGenerations - 1);
  const int64_t before = lists_[kFrozen].size;
  for (int g = 0; g < kGenerations; ++g)
    while (Tracked* t = lists_[size_t(g)].head) {
      unlink(*t);
      link(*t, kFrozen);
    }
  watching_ = true;
  log(LogLevel::info, "[gc] {}: froze {} objects ({} already frozen)", name_, lists_[kFrozen].size - before, before);
}

void HeapKeeper::unfreeze() {
  const std::lock_guard lock(mutex_);
  watching_ = false;
  while (Tracked* t = lists_[kFrozen].head) {
    unlink(*t);
    link(*t, kGenerations - 1);
  }
}

std::array<GcGeneration, 3> HeapKeeper::counts() const {
  const std::lock_guard lock(mutex_);
  auto out = counts_;
  for (size_t g = 0; g < out.size(); ++g) out[g].size = lists_[g].size;
  return out;
}

GcThresholds HeapKeeper::thresholds() const {
  const std::lock_guard lock(mutex_);
  return thresholds_;
}

HeapCensus HeapKeeper::census() const {
  HeapCensus c{.generations = counts(), .thresholds = thresholds()};
  std::map<std::pair<std::string_view, std::string_view>, int64_t> by_type;
  {
    const std::lock_guard lock(mutex_);
    for (const List& l : lists_) {
      c.tracked += l.size;
      for (const Tracked* t = l.head; t; t = t->next_) ++by_type[{t->type_, t->owner_}];
    }
    c.frozen = lists_[kFrozen].size;
  }
  for (const auto& [key, n] : by_type) c.types.push_back({key.first, key.second, n});
  std::stable_sort(c.types.begin(), c.types.end(), [](const auto& a, const auto& b) { return a.count > b.count; });
  return c;
}

}  // namespace isotope::base
