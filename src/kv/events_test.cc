// Events: what the manager reports, how it looks on the wire, and the sockets under load and hostile clients.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <zmq.hpp>

#include "kv/event_endpoint.h"
#include "kv/event_publisher.h"
#include "kv/event_queue.h"
#include "kv/manager.h"
#include "kv/replay.h"

namespace isotope::kv {
namespace {

using Json = nlohmann::json;
using Tokens = std::vector<int32_t>;
constexpr int B = 4;

Tokens iota(int64_t n, int from = 0) {
  Tokens v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), from);
  return v;
}

Json decoded(const std::string& payload) {
  return Json::from_msgpack(payload);  // an independent reader
}

// ---- what is reported ---------------------------------------------------------------------------------------------------------

/// A router that believes the events: which prefixes does it think are cached?
struct Follower {
  std::map<uint64_t, std::pair<std::optional<uint64_t>, Tokens>> blocks;
  std::set<uint64_t> unknown_parents;
  void take(std::vector<Event> events) {
    for (const Event& e : events) {
      if (const auto* s = std::get_if<BlockStored>(&e)) {
        EXPECT_EQ(s->tokens.size(), s->hashes.size() * B);
        auto parent = s->parent;
        if (parent && !blocks.contains(*parent)) unknown_parents.insert(*parent);
        for (size_t i = 0; i < s->hashes.size(); ++i) {
          EXPECT_FALSE(blocks.contains(s->hashes[i])) << "stored twice";
          blocks[s->hashes[i]] = {parent, Tokens(s->tokens.begin() + int64_t(i * B), s->tokens.begin() + int64_t(i + 1) * B)};
          parent = s->hashes[i];
        }
      } else if (const auto* r = std::get_if<BlockRemoved>(&e)) {
        for (const uint64_t h : r->hashes) EXPECT_EQ(blocks.erase(h), 1u) << "removed what was not there";
      } else {
        blocks.clear();
      }
    }
  }
  int64_t matched(const Tokens& t) const {
    std::optional<uint64_t> parent;
    for (int64_t n = 0;; ++n) {
      bool found = false;
      for (const auto& [h, b] : blocks)
        if (b.first == parent && int64_t(t.size()) >= (n + 1) * B && std::equal(b.second.begin(), b.second.end(), t.begin() + n * B)) {
          parent = h;
          found = true;
          break;
        }
      if (!found) return n;
    }
  }
};

TEST(Events, AFollowerKnowsWhatTheEngineKnows) {
  std::mt19937 rng(4);
  Manager m(B, std::vector<GroupConfig>{{24, 0}, {40, 6}}, true, {.events = true});
  Follower f;
  struct Life {
    SeqBlocks s;
    Tokens t;
    int64_t computed = 0;
  };
  std::vector<std::unique_ptr<Life>> lives;
  for (int step = 0; step < 4000; ++step) {
    if (lives.size() < 3 && rng() % 3 == 0) {
      auto l = std::make_unique<Life>();
      l->t = iota(int64_t(1 + rng() % 60));
      if (rng() % 2) l->t[rng() % l->t.size()] = 99 - int32_t(rng() % 2);
      m.hash_prompt(l->s, l->t, nullptr);
      l->computed = m.claim(l->s, l->t, (int64_t(l->t.size()) - 1) / B) * B;
      lives.push_back(std::move(l));
    } else if (!lives.empty()) {
      auto& l = lives[rng() % lives.size()];
      const int64_t to = std::min<int64_t>(int64_t(l->t.size()), l->computed + 1 + rng() % 9);
      if (to > l->computed && m.grow(l->s, to)) {
        m.commit(l->s, l->t, l->computed = to);
        if (rng() % 4) continue;
      }
      m.release(l->s);
      l = std::move(lives.back());
      lives.pop_back();
    }
    if (rng() % 300 == 0) m.forget_prefixes();
    f.take(m.take_events());
    ASSERT_EQ(int64_t(f.blocks.size()), m.pool(0).indexed_blocks()) << step;
    Manager full(B, std::vector<GroupConfig>{{24, 0}}, true);
    Tokens t = iota(60);
    if (rng() % 2) t[rng() % 60] = 99;
    SeqBlocks q;
    m.hash_prompt(q, t, nullptr);
    int64_t own = 0;
    while (own < int64_t(q.links.size()) && m.pool(0).indexed(q.links[size_t(own)])) ++own;
    ASSERT_EQ(f.matched(t), own) << step;
  }
  for (auto& l : lives) m.release(l->s);
}

TEST(Events, BlocksOfAStepFormOneEventAndOffMeansNone) {
  for (const bool on : {true, false}) {
    Manager m(B, std::vector<GroupConfig>{{24, 0}}, true, {.events = on});
    const auto t = iota(30);
    SeqBlocks s;
    s.labels.salt = "mine";
    s.key = base::cache_seed({.salt = "mine"});
    m.hash_prompt(s, t, nullptr);
    ASSERT_TRUE(m.grow(s, 20));
    m.commit(s, t, 20);
    const auto first = m.take_events();
    ASSERT_EQ(first.size(), on ? 1u : 0u);
    if (!on) continue;
    const auto& e = std::get<BlockStored>(first[0]);
    EXPECT_EQ(e.hashes.size(), 5u);
    EXPECT_EQ(e.parent, std::nullopt);
    EXPECT_EQ(e.tokens, iota(20));
    EXPECT_EQ(e.salted, 0);
    ASSERT_TRUE(m.grow(s, 30));
    m.commit(s, t, 30);
    const auto second = m.take_events();
    ASSERT_EQ(second.size(), 1u);
    EXPECT_EQ(std::get<BlockStored>(second[0]).parent, e.hashes[4]);
    m.release(s);
    EXPECT_TRUE(m.take_events().empty());
    m.forget_prefixes();
    EXPECT_TRUE(std::holds_alternative<AllBlocksCleared>(m.take_events().at(0)));
  }
}

// ---- the wire -----------------------------------------------------------------------------------------------------------------

const EventBatch kBatch{.seconds = 1.5,
                        .events = {BlockStored{.hashes = {1, UINT64_MAX}, .parent = 300, .tokens = iota(8, 70000)},
                                   BlockStored{.hashes = {7}, .tokens = iota(4), .labels = {.salt = "s", .lora = "l"}, .salted = 0},
                                   BlockRemoved{.hashes = {5, 6}}, AllBlocksCleared{}},
                        .rank = 3};

TEST(Wire, MapFormHasVllmsFieldNames) {
  const Json j = decoded(encode(kBatch, {.encoding = EventEncoding::map, .block_size = 4}));
  EXPECT_EQ(j, Json::parse(R"([1.5, [
    {"type": "BlockStored", "block_hashes": [1, 18446744073709551615], "parent_block_hash": 300,
     "token_ids": [70000, 70001, 70002, 70003, 70004, 70005, 70006, 70007], "block_size": 4, "lora_id": null, "medium": "GPU", "lora_name": null},
    {"type": "BlockStored", "block_hashes": [7], "parent_block_hash": null, "token_ids": [0, 1, 2, 3], "block_size": 4, "lora_id": null,
     "medium": "GPU", "lora_name": "l", "extra_keys": [["l", "s"]]},
    {"type": "BlockRemoved", "block_hashes": [5, 6], "medium": "GPU"},
    {"type": "AllBlocksCleared"}], 3])"));
}

TEST(Wire, ArrayFormHasTheTypeFirst) {
  const Json j = decoded(encode(kBatch, {.encoding = EventEncoding::array, .block_size = 4}));
  EXPECT_EQ(j[1][0], Json::parse(R"(["BlockStored", [1, 18446744073709551615], 300,
    [70000, 70001, 70002, 70003, 70004, 70005, 70006, 70007], 4, null, "GPU", null])"));
  EXPECT_EQ(j[1][1][8], Json::parse(R"([["l", "s"]])"));
  EXPECT_EQ(j[1][2], Json::parse(R"(["BlockRemoved", [5, 6], "GPU"])"));
  EXPECT_EQ(j[1][3], Json::parse(R"(["AllBlocksCleared"])"));
}

TEST(Wire, EveryLengthOfNumberAndTextReadsBack) {
  for (const size_t n : {0u, 1u, 15u, 16u, 31u, 32u, 255u, 256u, 65535u, 65536u, 70000u}) {
    BlockRemoved r;
    std::mt19937_64 rng(n);
    for (size_t i = 0; i < n; ++i) r.hashes.push_back(rng() >> (rng() % 64));
    const std::string salt(n, 'x');
    BlockStored s{.hashes = {1}, .tokens = {1, 2, 3, 127}, .labels = {.salt = salt}, .salted = 0};
    const Json j = decoded(encode({.events = {r, s}}, {}));
    EXPECT_EQ(j[1][0]["block_hashes"].get<std::vector<uint64_t>>(), r.hashes);
    EXPECT_EQ(j[1][1]["extra_keys"][0][0], salt);
  }
}

TEST(Wire, ReplayRequestsOfBothKindsAndNothingElse) {
  using V = std::vector<std::string_view>;
  const std::string_view seven("\0\0\0\0\0\0\0\7", 8);
  const auto read = [](const V& v) { return parse_replay_request(v); };
  EXPECT_EQ(read(V{"id", "", seven})->from, 7u);
  EXPECT_TRUE(read(V{"id", "", seven})->delimited);
  EXPECT_FALSE(read(V{"id", seven})->delimited);
  for (const V& bad : {V{}, V{"id"}, V{seven}, V{"id", ""}, V{"id", "x", seven}, V{"id", "", "1234567"}, V{"id", "", "123456789"}, V{"", seven},
                       V{"id", "", seven, ""}, V{"id", "", "", seven}})
    EXPECT_FALSE(read(bad)) << bad.size();
  EXPECT_EQ(decoded(encode_window(std::pair(3ull, 300ull))), Json::parse("[3, 300]"));
  EXPECT_EQ(decoded(encode_window({})), Json::parse("[null, null]"));
}

TEST(Endpoint, EveryRankHasItsOwn) {
  const struct {
    const char* given;
    int rank;
    const char* want;  ///< null: refused
  } cases[] = {{"tcp://127.0.0.1:5557", 0, "tcp://127.0.0.1:5557"},
               {"tcp://127.0.0.1:5557", 3, "tcp://127.0.0.1:5560"},
               {"tcp://*:5557", 1, "tcp://*:5558"},
               {"tcp://[::1]:5557", 1, "tcp://[::1]:5558"},
               {"tcp://127.0.0.1:0", 2, "tcp://127.0.0.1:0"},
               {"tcp://127.0.0.1:*", 2, "tcp://127.0.0.1:*"},
               {"ipc:///tmp/x", 0, "ipc:///tmp/x"},
               {"ipc:///tmp/x", 2, "ipc:///tmp/x_dp2"},
               {"inproc://x", 1, "inproc://x_dp1"},
               {"tcp://127.0.0.1:65535", 1, nullptr},
               {"tcp://127.0.0.1", 1, nullptr},
               {"tcp://127.0.0.1:x", 0, nullptr},
               {"tcp://127.0.0.1:-1", 0, nullptr},
               {"tcp://", 0, nullptr},
               {"udp://1:2", 0, nullptr},
               {"5557", 0, nullptr},
               {"", 0, nullptr}};
  for (const auto& c : cases) {
    const auto got = endpoint_of_rank(c.given, c.rank, "SETTING");
    if (c.want) {
      ASSERT_TRUE(got) << c.given;
      EXPECT_EQ(*got, c.want);
    } else {
      ASSERT_FALSE(got) << c.given;
      EXPECT_EQ(got.error().source, "SETTING");
    }
  }
}

TEST(Queue, DropsTheOldestAndKeepsCounting) {
  EventQueue q(3);
  int dropped = 0;
  for (int i = 0; i < 8; ++i) dropped += q.put({.rank = i});
  EXPECT_EQ(dropped, 5);
  bool closed = true;
  const auto got = q.take(closed);
  EXPECT_FALSE(closed);
  ASSERT_EQ(got.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(got[i].number, 5 + i);
    EXPECT_EQ(got[i].batch.rank, int(5 + i));
  }
  EXPECT_TRUE(q.sleep());
  q.awake();
  q.close();
  EXPECT_FALSE(q.sleep());
}

// ---- sockets ------------------------------------------------------------------------------------------------------------------

using Frames = std::vector<std::string>;

struct Client {
  zmq::context_t context;
  Frames receive(zmq::socket_t& s, int ms = 5000) {
    s.set(zmq::sockopt::rcvtimeo, ms);
    Frames out;
    zmq::message_t m;
    do {
      if (!s.recv(m)) return {};
      out.push_back(m.to_string());
    } while (m.more());
    return out;
  }
  zmq::socket_t dealer(const std::string& endpoint) {
    zmq::socket_t s(context, zmq::socket_type::dealer);
    s.set(zmq::sockopt::linger, 0);
    s.connect(endpoint);
    return s;
  }
  static void send(zmq::socket_t& s, const Frames& frames) {
    for (size_t i = 0; i < frames.size(); ++i)
      s.send(zmq::buffer(frames[i]), i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
};

std::string number(uint64_t n) {
  const auto b = sequence_bytes(n);
  return std::string(b.begin(), b.end());
}

std::unique_ptr<EventPublisher> publisher(int64_t history = 1000, const char* topic = "kv@x") {
  auto p = make_zmq_publisher({.endpoint = "tcp://127.0.0.1:0", .replay_endpoint = "tcp://127.0.0.1:0", .topic = topic, .history = history});
  EXPECT_TRUE(p) << (p ? "" : p.error().message());
  return *std::move(p);
}

void publish(EventPublisher& p, int n) {
  for (int i = 0; i < n; ++i) p.publish({BlockRemoved{.hashes = {uint64_t(i)}}});
}

void wait_for(const std::function<bool()>& f) {
  for (int i = 0; i < 5000 && !f(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(f());
}

TEST(Publisher, LiveBatchesHaveTopicNumberAndPayload) {
  auto p = publisher();
  Client c;
  zmq::socket_t sub(c.context, zmq::socket_type::sub);
  sub.set(zmq::sockopt::subscribe, "kv@");
  sub.connect(p->bound().endpoint);
  Frames f;
  for (int i = 0; i < 500 && f.empty(); ++i) {  // a subscription takes a moment
    publish(*p, 1);
    f = c.receive(sub, 10);
  }
  ASSERT_EQ(f.size(), 3u);
  EXPECT_EQ(f[0], "kv@x");
  uint64_t last = 0;
  for (const char b : f[1]) last = last << 8 | uint8_t(b);
  EXPECT_EQ(decoded(f[2])[1][0]["type"], "BlockRemoved");
  publish(*p, 100);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(c.receive(sub)[1], number(++last));
  zmq::socket_t other(c.context, zmq::socket_type::sub);
  other.set(zmq::sockopt::subscribe, "elsewhere");
  other.connect(p->bound().endpoint);
  publish(*p, 10);
  EXPECT_TRUE(c.receive(other, 50).empty());
}

TEST(Publisher, ReplaysWhatIsKeptInBothDialects) {
  auto p = publisher(20);
  publish(*p, 50);
  wait_for([&] { return p->stats().sent == 50; });
  Client c;
  auto d = c.dealer(p->bound().replay_endpoint);
  Client::send(d, {"", number(35)});
  for (uint64_t n = 35; n < 50; ++n) {
    const Frames f = c.receive(d);
    ASSERT_EQ(f.size(), 4u);
    EXPECT_EQ(f[0], "");
    EXPECT_EQ(f[1], "kv@x");
    EXPECT_EQ(f[2], number(n));
    EXPECT_EQ(decoded(f[3])[1][0]["block_hashes"][0], n);
  }
  EXPECT_EQ(c.receive(d), (Frames{"", "", number(UINT64_MAX), ""}));
  Client::send(d, {number(0)});  // ATOM's: no delimiter, and the window at the end
  for (uint64_t n = 30; n < 50; ++n) EXPECT_EQ(c.receive(d).at(0), number(n));
  const Frames end = c.receive(d);
  ASSERT_EQ(end.size(), 2u);
  EXPECT_EQ(end[0], number(UINT64_MAX));
  EXPECT_EQ(decoded(end[1]), Json::parse("[30, 49]"));
  Client::send(d, {"", number(1000)});
  EXPECT_EQ(c.receive(d).back(), "");
  wait_for([&] { return p->stats().replayed == 35; });
}

TEST(Publisher, HostileFramesAreCountedAndForgotten) {
  auto p = publisher();
  publish(*p, 5);
  Client c;
  std::mt19937 rng(1);
  std::vector<zmq::socket_t> hostile;
  for (int round = 0; round < 20; ++round) {
    auto& d = hostile.emplace_back(c.dealer(p->bound().replay_endpoint));
    for (int i = 0; i < 50; ++i) {
      Frames f(1 + rng() % 6);
      for (auto& frame : f) {
        frame.resize(rng() % 3 ? rng() % 12 : rng() % 250);
        for (char& b : frame) b = char(rng());
      }
      Client::send(d, f);
    }
  }
  wait_for([&] { return p->stats().bad_requests > 800; });
  auto big = c.dealer(p->bound().replay_endpoint);
  Client::send(big, {std::string(1 << 20, 'x')});  // its connection is closed
  auto good = c.dealer(p->bound().replay_endpoint);
  Client::send(good, {"", number(0)});
  for (uint64_t n = 0; n < 5; ++n) EXPECT_EQ(c.receive(good).at(2), number(n));
  EXPECT_EQ(c.receive(good).back(), "");
}

/// A client that never reads loses its replay; live events go on meanwhile.
TEST(Publisher, StuckClientLosesItsReplayOnly) {
  auto p = publisher(20000, "");
  for (int i = 0; i < 20000; ++i) p->publish({BlockRemoved{.hashes = std::vector<uint64_t>(60, UINT64_MAX)}});
  wait_for([&] { return p->stats().sent + p->stats().dropped == 20000; });
  Client c;
  zmq::socket_t stuck(c.context, zmq::socket_type::dealer);
  stuck.set(zmq::sockopt::rcvhwm, 1);
  stuck.set(zmq::sockopt::rcvbuf, 4096);
  stuck.set(zmq::sockopt::linger, 0);
  stuck.connect(p->bound().replay_endpoint);
  Client::send(stuck, {"", number(0)});
  wait_for([&] { return p->stats().replayed > 0; });
  const auto before = p->stats().sent;
  publish(*p, 100);
  wait_for([&] { return p->stats().sent == before + 100; });
  wait_for([&] { return p->stats().replay_aborted == 1; });
}

TEST(Publisher, TakenAddressIsAnErrorWithTheRule) {
  auto p = publisher();
  const auto second = make_zmq_publisher({.endpoint = p->bound().endpoint});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message().find("data_parallel_size apart"), std::string::npos);
  EXPECT_NE(second.error().message().find(p->bound().endpoint), std::string::npos);
}

}  // namespace
}  // namespace isotope::kv
