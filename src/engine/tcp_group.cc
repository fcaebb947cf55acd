#include "engine/tcp_group.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <thread>

#include "base/log.h"
#include "engine/frames.h"

namespace isotope::engine {

namespace {

using Frame = FrameSocket::Frame;
using sched::RankReport;
using sched::RankTimes;
using sched::Signals;

constexpr int64_t kMagic = 0x31706574536f7349;  ///< "IsoStep1"
constexpr const char* kSource = "ATOM_DP_MASTER_IP, ATOM_DP_MASTER_PORT";
enum Kind : int64_t { kHello = 1, kWelcome, kRefused, kCall, kReports, kCosts };

constexpr int64_t Signals::*kSignals[] = {&Signals::ranks,   &Signals::executed, &Signals::able,    &Signals::pending, &Signals::held,
                                          &Signals::decoding, &Signals::partial, &Signals::kv_high, &Signals::kv_low,  &Signals::aged};
constexpr int64_t RankTimes::*kTimes[] = {&RankTimes::prefill_ns, &RankTimes::decode_ns, &RankTimes::arrivals_milli};
constexpr size_t kReportSize = 1 + std::size(kSignals) + std::size(kTimes);

// ---- messages as numbers --------------------------------------------------------------------------------------------------------------

void put(Frame& f, const RankReport& r) {
  f.push_back(r.work);
  for (const auto m : kSignals) f.push_back(r.signals.*m);
  for (const auto m : kTimes) f.push_back(r.times.*m);
}
void put(Frame& f, double v) {
  f.push_back(std::bit_cast<int64_t>(v));
}

void get(const int64_t*& p, RankReport& r) {
  r.work = *p++ != 0;
  for (const auto m : kSignals) r.signals.*m = *p++;
  for (const auto m : kTimes) r.times.*m = *p++;
}
void get(const int64_t*& p, double& v) {
  v = std::bit_cast<double>(*p++);
}

template <class T>
constexpr size_t kSizeOf = std::is_same_v<T, double> ? 1 : kReportSize;

template <class T>
Frame pack(Kind kind, std::span<const T> values) {
  Frame f{kind};
  for (const T& v : values) put(f, v);
  return f;
}

/// False for a frame of another length.
template <class T>
bool unpack(const Frame& f, std::span<T> values) {
  if (f.size() != 1 + values.size() * kSizeOf<T>) return false;
  const int64_t* p = f.data() + 1;
  for (T& v : values) get(p, v);
  return true;
}

// ---- rank 0 ---------------------------------------------------------------------------------------------------------------------------

class Hub final : public StepGroup {
 public:
  Hub(int size, std::vector<std::unique_ptr<FrameSocket>> others) : group_(size), others_(std::move(others)) {
    for (size_t i = 0; i < others_.size(); ++i) {
      FrameSocket* socket = others_[i].get();
      group_.join(int(i) + 1, [socket](uint64_t round) { socket->send({kCall, int64_t(round)}); });
    }
    for (size_t i = 0; i < others_.size(); ++i) threads_.emplace_back([this, i] { serve(int(i) + 1, *others_[i]); });
  }
  ~Hub() override {
    for (auto& s : others_) s->shut();
    for (std::thread& t : threads_) t.join();
  }

  void join(int rank, Wake wake) override { group_.join(rank, std::move(wake)); }
  std::span<const RankReport> reports(int rank, const RankReport& mine) override { return group_.reports(rank, mine); }
  std::span<const double> costs(int rank, double mine) override { return group_.costs(rank, mine); }
  bool called(int rank) const override { return group_.called(rank); }
  void leave(int rank) override { group_.leave(rank); }

 private:
  void serve(int rank, FrameSocket& socket) {
    Frame f;
    bool alive = true;
    while (alive && socket.receive(f)) {
      RankReport report;
      double cost = 0;
      if (f[0] == kReports && unpack(f, std::span(&report, 1)))
        alive = socket.send(pack(kReports, group_.reports(rank, report)));
      else if (f[0] == kCosts && unpack(f, std::span(&cost, 1)))
        alive = socket.send(pack(kCosts, group_.costs(rank, cost)));
      else
        alive = false;
    }
    base::log(base::LogLevel::info, "data-parallel rank {} has left the group", rank);
    group_.leave(rank);
  }

  ThreadGroup group_;
  std::vector<std::unique_ptr<FrameSocket>> others_;  ///< of rank 1 and so on
  std::vector<std::thread> threads_;
};

// ---- the others -----------------------------------------------------------------------------------------------------------------------

class Guest final : public StepGroup {
 public:
  Guest(int rank, int size, std::unique_ptr<FrameSocket> hub)
      : rank_(size_t(rank)), hub_(std::move(hub)), reports_(size_t(size)), costs_(size_t(size)), thread_([this] { listen(); }) {}
  ~Guest() override {
    hub_->shut();
    thread_.join();
  }

  void join(int, Wake wake) override {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
  }
  std::span<const RankReport> reports(int, const RankReport& mine) override { return ask(kReports, reports_, mine); }
  std::span<const double> costs(int, double mine) override { return ask(kCosts, costs_, mine); }
  bool called(int) const override {
    const std::lock_guard lock(mutex_);
    return !over_ && wanted_ > rounds_;
  }
  void leave(int) override { hub_->shut(); }

 private:
  template <class T>
  std::span<const T> ask(Kind kind, std::vector<T>& all, const T& mine) {
    std::unique_lock lock(mutex_);
    if (kind == kReports) ++rounds_;
    answered_ = false;
    if (!over_ && hub_->send(pack(kind, std::span(&mine, 1)))) changed_.wait(lock, [&] { return answered_ || over_; });
    if (!answered_) {
      std::fill(all.begin(), all.end(), T{});
      all[rank_] = mine;
    }
    return all;
  }

  void listen() {
    Frame f;
    while (hub_->receive(f)) {
      const std::lock_guard lock(mutex_);
      if (f[0] == kCall && f.size() == 2) {
        wanted_ = uint64_t(f[1]) + 1;
        if (wake_) wake_(uint64_t(f[1]));
      } else if ((f[0] == kReports && unpack(f, std::span(reports_))) || (f[0] == kCosts && unpack(f, std::span(costs_)))) {
        answered_ = true;
        changed_.notify_all();
      } else {
        break;
      }
    }
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
    base::log(base::LogLevel::info, "data-parallel rank {} steps by itself from now on: rank 0 has gone, or this rank is leaving", rank_);
  }

  size_t rank_;
  std::unique_ptr<FrameSocket> hub_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Wake wake_;
  uint64_t rounds_ = 0, wanted_ = 0;  ///< reported; called for (number of the round + 1)
  bool answered_ = false, over_ = false;
  std::vector<RankReport> reports_;
  std::vector<double> costs_;
  std::thread thread_;
};

// ---- meeting --------------------------------------------------------------------------------------------------------------------------

/// Null when it may come in, else why not.
const char* refusal(const Frame& hello, const Meeting& m, const std::vector<std::unique_ptr<FrameSocket>>& there) {
  if (hello.size() != 5 || hello[0] != kHello || hello[1] != kMagic) return "it does not speak this protocol";
  if (hello[3] != m.size) return "its ATOM_DP_SIZE differs";
  if (hello[2] < 1 || hello[2] >= m.size) return "its rank is none of the group's";
  if (there[size_t(hello[2] - 1)]) return "that rank is there already";
  return hello[4] == m.terms ? nullptr : "its settings of the prefill delayer, of balancing or of the step's size differ";
}

Result<std::unique_ptr<StepGroup>> host(const Meeting& m) {
  ISO_TRY(const int listener, listen_tcp(m.host, m.port, kSource));
  struct Close {
    int fd;
    ~Close() { ::close(fd); }
  } close{listener};
  base::log(base::LogLevel::info, "data-parallel rank 0 of {}: waiting for the others at {}, port {}", m.size, m.host, port_of(listener));
  std::vector<std::unique_ptr<FrameSocket>> others(size_t(m.size - 1));
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(m.patience_ms);
  for (int missing = m.size - 1; missing > 0;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    const int fd = left > 0 ? accept_tcp(listener, int(left)) : -1;
    if (fd < 0 && left <= 0)
      return fail(Code::unavailable, fmt::format("{} of {} data-parallel ranks have not come to {}, port {}, in {:.3g} s", missing, m.size, m.host, m.port, m.patience_ms * 1e-3),
                  kSource, "start them with the same address and port");
    if (fd < 0) continue;
    auto socket = std::make_unique<FrameSocket>(fd);
    Frame hello;
    socket->set_patience(5'000);  // whoever connects and says nothing is not waited for
    if (!socket->receive(hello)) continue;
    socket->set_patience(0);
    if (const char* why = refusal(hello, m, others)) {
      base::log(base::LogLevel::warning, "somebody was turned away from the data-parallel group: {}", why);
      socket->send({kRefused});
      continue;
    }
    others[size_t(hello[2] - 1)] = std::move(socket);
    --missing;
  }
  for (auto& s : others) s->send({kWelcome});
  base::log(base::LogLevel::info, "all {} data-parallel ranks are there", m.size);
  return std::make_unique<Hub>(m.size, std::move(others));
}

Result<std::unique_ptr<StepGroup>> visit(const Meeting& m) {
  ISO_TRY(const int fd, connect_tcp(m.host, m.port, m.patience_ms, kSource));
  auto socket = std::make_unique<FrameSocket>(fd);
  Frame answer;
  const bool heard = socket->send({kHello, kMagic, m.rank, m.size, m.terms}) && socket->receive(answer);
  if (!heard || answer[0] != kWelcome)
    return fail(Code::invalid_argument, fmt::format("rank {} of {} was turned away at {}, port {}", m.rank, m.size, m.host, m.port), kSource,
                "give every rank its own ATOM_DP_RANK and otherwise the same settings; rank 0's log says what differs");
  return std::make_unique<Guest>(m.rank, m.size, std::move(socket));
}

}  // namespace

Result<std::unique_ptr<StepGroup>> meet(const Meeting& m) {
  return m.rank == 0 ? host(m) : visit(m);
}

}  // namespace isotope::engine
