#include "sched/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <queue>
#include <random>

namespace isotope::sched {

namespace {

enum class Kind : uint8_t { step_done, ready, cancel };

struct Event {
  int64_t ns;
  uint64_t order;  ///< ties go by it, so that a run is the same every time
  Kind kind;
  size_t what;  ///< rank or request
  bool operator>(const Event& o) const { return ns != o.ns ? ns > o.ns : order > o.order; }
};

int64_t ns_of(double s) {
  return int64_t(s * 1e9);
}

class Run {
 public:
  Run(const std::vector<SimRequest>& requests, const SimOptions& o)
      : requests_(requests), o_(o), router_({.ranks = o.ranks, .policy = o.policy, .request_equiv = o.request_equiv, .session_affinity = o.session_affinity, .max_sessions = o.max_sessions}),
        random_(o.faults.seed), rank_of_(requests.size(), -1), parked_(requests.size()), busy_(size_t(o.ranks), false) {
    for (int i = 0; i < o.ranks; ++i) ranks_.push_back(std::make_unique<SimRank>(o.rank));
    const auto& s = o.rank.scheduler;
    if (o.lockstep)
      group_.emplace(LockstepOptions{.delayer = s.delayer, .budget = s.limits.token_budget, .balancing = o.balancing, .balance = o.balance && s.limits.chunked});
    report_.requests = int64_t(requests.size());
  }

  Result<SimReport> go() {
    for (next_ = 0; next_ < requests_.size() || !events_.empty();) {
      if (!report_.broken.empty() || (o_.max_steps > 0 && report_.steps >= o_.max_steps)) break;
      if (next_ < requests_.size() && (events_.empty() || ns_of(requests_[next_].arrival_s) <= events_.top().ns)) {
        now_ = std::max(now_, ns_of(requests_[next_].arrival_s));
        ISO_CHECK_OK(arrive(next_++));
      } else {
        const Event e = events_.top();
        events_.pop();
        now_ = std::max(now_, e.ns);
        ISO_CHECK_OK(handle(e));
      }
    }
    if (report_.broken.empty() && o_.max_steps == 0 && report_.finished + report_.cancelled + report_.refused != report_.requests)
      report_.broken = "requests were lost";
    summarize();
    return std::move(report_);
  }

 private:
  void at(int64_t ns, Kind kind, size_t what) { events_.push({ns, order_++, kind, what}); }
  double chance() { return double(random_() >> 11) * 0x1p-53; }

  // ---- requests come and go -------------------------------------------------------------------------------------------------------

  Result<void> arrive(size_t i) {
    const SimRequest& r = requests_[i];
    const int64_t blocks = (r.prompt + r.output) / o_.rank.scheduler.limits.block_size + 1;
    if (blocks > o_.rank.blocks)
      return fail(Code::resource_exhausted, fmt::format("request {} needs {} KV blocks, a rank has {}", i, blocks, o_.rank.blocks), "--sim-blocks",
                  "raise it, or leave the request out");
    if (r.rank >= o_.ranks)
      return fail(Code::invalid_argument, fmt::format("request {} names rank {}, there are {}", i, r.rank, o_.ranks), "--sim-ranks",
                  "raise it, or leave the request out");
    auto s = std::make_unique<SimSeq>();
    s->index = i;
    s->request = &r;
    s->arrived_ns = now_;
    if (r.deadline_ms > 0) s->start_by_ns = now_ + ns_of(r.deadline_ms * 1e-3);
    if (r.cancel_s > 0) at(now_ + ns_of(r.cancel_s), Kind::cancel, i);
    ISO_CHECK_OK(route(*s));
    if (r.transfer_ms > 0) {
      parked_[i] = std::move(s);
      at(now_ + ns_of(r.transfer_ms * 1e-3), Kind::ready, i);
      return {};
    }
    enqueue(std::move(s));
    return {};
  }

  Result<void> route(const SimSeq& s) {
    const SimRequest& r = *s.request;
    ISO_TRY(const RouteGrant g, router_.route({.id = s.index, .prompt_tokens = r.prompt, .session = r.session, .rank = r.rank}));
    rank_of_[s.index] = g.rank;
    return {};
  }

  void enqueue(std::unique_ptr<SimSeq> s) {
    const size_t rank = size_t(rank_of_[s->index]);
    ranks_[rank]->add(std::move(s), now_);
    start(rank);
  }

  void ended(size_t i, int64_t& counter) {
    ++counter;
    router_.finished(i);
    rank_of_[i] = -1;
  }

  void cancel(size_t i) {
    if (rank_of_[i] < 0) return;
    std::unique_ptr<SimSeq> s = parked_[i] ? std::move(parked_[i]) : ranks_[size_t(rank_of_[i])]->take(i, false);
    if (s) ended(i, report_.cancelled);
  }

  void ready(size_t i) {
    if (!parked_[i]) return;  // cancelled
    if (chance() < o_.faults.late) {
      ++report_.late_transfers;
      at(now_ + std::max<int64_t>(1, ns_of(requests_[i].transfer_ms * 1e-3)), Kind::ready, i);
      return;
    }
    enqueue(std::move(parked_[i]));
  }

  // ---- steps ------------------------------------------------------------------------------------------------------------------------

  Result<void> handle(const Event& e) {
    switch (e.kind) {
      case Kind::cancel: cancel(e.what); return {};
      case Kind::ready: ready(e.what); return {};
      case Kind::step_done: break;
    }
    if (o_.lockstep) {
      for (size_t r = 0; r < ranks_.size(); ++r) ISO_CHECK_OK(end_step(r));
      busy_[0] = false;
      start(0);
      return {};
    }
    ISO_CHECK_OK(end_step(e.what));
    busy_[e.what] = false;
    start(e.what);
    return {};
  }

  Result<void> end_step(size_t r) {
    SimRank& rank = *ranks_[r];
    const int64_t tokens = rank.step_tokens();
    for (const SimEvent& e : rank.finish(now_)) {
      const size_t i = e.seq->index;
      ++report_.output_tokens;
      if (e.first) router_.first_output(i);
      if (!e.last) continue;
      const std::unique_ptr<SimSeq> s = rank.take(i, true);
      if (s->made != s->request->output) broken("a request ended with the wrong number of tokens");
      report_.ttft.values.push_back(double(s->first_ns - s->arrived_ns) * 1e-9);
      report_.e2e.values.push_back(double(now_ - s->arrived_ns) * 1e-9);
      if (s->made > 1) report_.tpot.values.push_back(double(s->last_ns - s->first_ns) * 1e-9 / double(s->made - 1));
      ended(i, report_.finished);
    }
    if (o_.check) {
      if (const char* wrong = rank.check()) broken(wrong);
    }
    return o_.faults.any() && tokens > 0 ? fault(r) : Result<void>{};
  }

  Result<void> fault(size_t r) {
    if (chance() < o_.faults.preempt) ranks_[r]->force_preempt();
    if (chance() < o_.faults.cancel && next_ > 0) cancel(size_t(random_() % next_));
    if (chance() >= o_.faults.rank_loss || ranks_.size() < 2) return {};
    ++report_.lost_ranks;
    for (auto& s : ranks_[r]->take_all()) {
      router_.finished(s->index);
      ISO_CHECK_OK(route(*s));
      const size_t to = size_t(rank_of_[s->index]);
      ranks_[to]->add(std::move(s), now_);
      if (to != r) start(to);
    }
    return {};
  }

  void refuse_overdue(size_t r) {
    for (const auto& s : ranks_[r]->take_overdue(now_)) ended(s->index, report_.refused);
  }

  /// Begins the next step of a rank that is not in one; in lockstep of all of them.
  void start(size_t r) {
    if (o_.lockstep) return start_together();
    if (busy_[r]) return;
    refuse_overdue(r);
    for (int tries = 0; ranks_[r]->has_work(); ++tries) {
      ranks_[r]->plan(now_);
      if (const int64_t ns = ranks_[r]->begin(); ns > 0) {
        count(r);
        busy_[r] = true;
        return at(now_ + ns, Kind::step_done, r);
      }
      if (tries > 3) return broken("a rank has requests and plans nothing");
    }
  }

  void start_together() {
    if (busy_[0]) return;
    for (int tries = 0;; ++tries) {
      bool work = false;
      reports_.clear();
      for (size_t r = 0; r < ranks_.size(); ++r) {
        refuse_overdue(r);
        reports_.push_back({ranks_[r]->has_work(), ranks_[r]->observe(now_), ranks_[r]->meter().times(now_)});
        work |= reports_.back().work;
      }
      if (!work) return;
      const bool hold = group_->hold(reports_);
      for (auto& rank : ranks_) rank->plan(hold);
      if (group_->balances() && !hold) even_out();
      int64_t longest = 0;
      for (auto& rank : ranks_) longest = std::max(longest, rank->begin());
      if (longest > 0) {
        for (size_t r = 0; r < ranks_.size(); ++r)
          if (ranks_[r]->step_tokens() > 0) count(r);
        busy_[0] = true;
        return at(now_ + longest, Kind::step_done, 0);
      }
      if (tries > 3) return broken("the ranks have requests and plan nothing");
    }
  }

  /// Every rank's second message, and what each does about all of them.
  void even_out() {
    std::vector<double> costs;
    for (const auto& rank : ranks_) costs.push_back(group_->cost(rank->scheduler().prefill_chunks()));
    for (const auto& rank : ranks_) {
      std::vector<PrefillChunk> mine = rank->scheduler().prefill_chunks();
      const int64_t taken = group_->even_out(mine, costs);
      if (taken > 0) rank->scheduler().set_prefill(mine);
      report_.shrunk_tokens += taken;
    }
  }

  void count(size_t r) {
    ++report_.steps;
    report_.prefill_steps += ranks_[r]->step_prefill() > 0;
    report_.prompt_tokens += ranks_[r]->step_prefill();
  }

  void broken(const char* what) {
    if (report_.broken.empty()) report_.broken = fmt::format("step {}: {}", report_.steps, what);
  }

  void summarize() {
    report_.simulated_s = double(now_) * 1e-9;
    report_.routed = router_.counts().routed;
    const auto add = [&](const Delayer& d) {
      report_.exits.resize(kExits);
      for (size_t e = 0; e < kExits; ++e) report_.exits[e] += d.count(Exit(e));
    };
    if (group_ && group_->delayer()) add(*group_->delayer());
    for (const auto& rank : ranks_) {
      report_.preemptions += rank->preemptions();
      report_.hit_tokens += rank->hit_tokens();
      report_.looked_up_tokens += rank->looked_up_tokens();
      if (!o_.lockstep && rank->scheduler().delayer()) add(*rank->scheduler().delayer());
    }
  }

  const std::vector<SimRequest>& requests_;
  const SimOptions& o_;
  Router router_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<SimRank>> ranks_;
  std::vector<int> rank_of_;                      ///< by request; -1: not here
  std::vector<std::unique_ptr<SimSeq>> parked_;  ///< by request: waits for its KV from elsewhere
  std::vector<bool> busy_;                        ///< by rank; in lockstep the first stands for all
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::optional<Lockstep> group_;
  std::vector<RankReport> reports_;
  uint64_t order_ = 0;
  size_t next_ = 0;
  int64_t now_ = 0;
  SimReport report_;
};

}  // namespace

double SimTimes::mean() const {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / double(values.size());
}

double SimTimes::at(double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, size_t(share * double(values.size())))];
}

Result<SimReport> simulate(const std::vector<SimRequest>& requests, const SimOptions& o) {
  SimOptions own = o;
  own.rank.scheduler.lockstep_group = o.lockstep;
  own.balancing.block_size = o.rank.scheduler.limits.block_size;
  return Run(requests, own).go();
}

}  // namespace isotope::sched
