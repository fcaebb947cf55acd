// Ranks of several processes, here threads with a socket each: they meet, decide together, and go on when one of them is gone.
#include "engine/tcp_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "engine/frames.h"
#include "fixture.h"

namespace isotope::engine::test {
namespace {

int free_port() {
  const int fd = *listen_tcp("127.0.0.1", 0, "test");
  const int port = port_of(fd);
  ::close(fd);
  return port;
}

/// All ranks meet, each on a thread of its own.
std::vector<Result<std::unique_ptr<StepGroup>>> gather(std::vector<Meeting> all) {
  std::vector<Result<std::unique_ptr<StepGroup>>> out(all.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < all.size(); ++i) threads.emplace_back([&, i] { out[i] = meet(all[i]); });
  for (std::thread& t : threads) t.join();
  return out;
}

std::vector<Meeting> meetings(int n, int patience_ms = 20'000) {
  const int port = free_port();
  std::vector<Meeting> all;
  for (int r = 0; r < n; ++r) all.push_back({.port = port, .rank = r, .size = n, .terms = 7, .patience_ms = patience_ms});
  return all;
}

TEST(TcpGroup, EverybodyHearsTheSame) {
  auto groups = gather(meetings(3));
  std::vector<std::thread> threads;
  std::vector<std::vector<double>> heard(3);
  std::vector<int64_t> pending(3);
  for (int r = 0; r < 3; ++r)
    threads.emplace_back([&, r] {
      ASSERT_TRUE(groups[size_t(r)]) << groups[size_t(r)].error().message();
      StepGroup& g = **groups[size_t(r)];
      for (int step = 0; step < 50; ++step) {
        for (const auto& x : g.reports(r, {.work = true, .signals = {.pending = r + step}})) pending[size_t(r)] += x.signals.pending;
        const auto costs = g.costs(r, 0.1 * r + step);
        heard[size_t(r)].insert(heard[size_t(r)].end(), costs.begin(), costs.end());
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(heard[0].size(), 150u);
  EXPECT_EQ(heard[1], heard[0]);
  EXPECT_EQ(heard[2], heard[0]);
  EXPECT_EQ(pending, std::vector<int64_t>(3, 3 * (49 * 50 / 2) + 50 * 3));
}

TEST(TcpGroup, WhoCannotMeetIsTold) {
  auto lonely = meetings(2, 150);
  const auto host = meet(lonely[0]), guest = meet(lonely[1]);
  ASSERT_FALSE(host);
  EXPECT_NE(host.error().message().find("port " + std::to_string(lonely[0].port)), std::string::npos) << host.error().message();
  ASSERT_FALSE(guest);
  EXPECT_NE(guest.error().message().find("nobody answers at 127.0.0.1"), std::string::npos) << guest.error().message();
  EXPECT_FALSE(meet({.host = "no such host.invalid", .rank = 0, .size = 2, .patience_ms = 100}));
  EXPECT_FALSE(meet({.host = "no such host.invalid", .rank = 1, .size = 2, .patience_ms = 100}));
  const int taken = *listen_tcp("127.0.0.1", 0, "test");
  const auto refused = meet({.port = port_of(taken), .rank = 0, .size = 2, .patience_ms = 100});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find(std::to_string(port_of(taken))), std::string::npos) << refused.error().message();
  ::close(taken);
}

TEST(TcpGroup, StrangersAndOthersTermsAreTurnedAway) {
  auto all = meetings(2);
  all.push_back(all[1]);
  all.push_back(all[1]);
  all.push_back(all[1]);
  all[2].terms = 8;
  all[3].size = 3;
  all[4].rank = 5;
  std::thread stranger([&] {
    const auto fd = connect_tcp("127.0.0.1", all[0].port, 20'000, "test");
    ASSERT_TRUE(fd);
    ASSERT_GT(::write(*fd, "GET / HTTP/1.1\r\n\r\n", 18), 0);
    ::close(*fd);
  });
  std::vector<Result<std::unique_ptr<StepGroup>>> wrong(3);
  std::thread host([&] { EXPECT_TRUE(meet(all[0])); });
  stranger.join();
  for (size_t i = 0; i < 3; ++i) wrong[i] = meet(all[2 + i]);
  EXPECT_TRUE(meet(all[1]));
  host.join();
  for (const auto& w : wrong) {
    ASSERT_FALSE(w);
    EXPECT_NE(w.error().message().find("turned away"), std::string::npos) << w.error().message();
  }
}

struct Process {
  Process(std::unique_ptr<StepGroup> group, int rank) {
    Parts p;
    p.options = {.first_rank = rank, .block_size = kBlock, .max_num_seqs = 8, .max_num_batched_tokens = 64};
    p.info = {.name = "fake", .vocab = kVocab, .context_length = 200, .max_model_len = 200, .eos_ids = {kEos}};
    p.groups = {{128, 0}};
    p.check_every_step = true;
    p.own_group = std::move(group);
    p.group = p.own_group.get();
    p.seat = rank;
    p.delayer = {.stall_ticks = 3};
    p.balancing = {.slack = 0, .min_tokens = 4};
    auto r = std::make_unique<FakeRunner>(kVocab, kBlock, p.groups);
    runner = r.get();
    p.runner = std::move(r);
    engine = make_engine(std::move(p));
  }
  FakeRunner* runner;
  std::unique_ptr<Engine> engine;
};

TEST(TcpGroup, EnginesOfSeveralProcessesStepTogether) {
  auto groups = gather(meetings(3));
  std::vector<std::unique_ptr<Process>> ranks;
  for (int r = 0; r < 3; ++r) ranks.push_back(std::make_unique<Process>(std::move(*groups[size_t(r)]), r));
  ranks[1]->runner->step_time = std::chrono::milliseconds(1);
  const std::vector<kv::GroupConfig> layout{{128, 0}};
  const std::vector<std::vector<size_t>> rounds = {{0, 1, 2}, {2}, {1, 0}, {1}};  // who gets requests
  for (size_t round = 0; round < rounds.size(); ++round) {
    if (round == 2) ranks[2].reset();
    if (round == 3) ranks[0].reset();  // rank 1 goes on alone
    Collector c;
    std::map<uint64_t, Answer> want;
    for (uint64_t id = 0; id < 12; ++id) {
      Request r = request(id, prompt_of(1 + int64_t(id * 17 % 100), uint32_t(id)), {.temperature = 0, .max_tokens = 20, .ignore_eos = true});
      want[id] = expected(r.prompt, r.sampling, layout);
      r.sink = c.sink(id);
      ASSERT_TRUE(ranks[rounds[round][id % rounds[round].size()]]->engine->submit(std::move(r)));
    }
    ASSERT_TRUE(c.wait_ended(12)) << "round " << round;
    for (const auto& [id, a] : want) expect_same(c.answer(id), a, "round " + std::to_string(round) + ", request " + std::to_string(id));
  }
  EXPECT_EQ(ranks[1]->runner->bad_reads + ranks[1]->runner->bad_writes, 0);
}

}  // namespace
}  // namespace isotope::engine::test
