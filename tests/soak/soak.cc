// soak [SECONDS [STREAMS [ENGINES [together]]]]: a real server with the real engines on a model of arithmetic. Clients send random calls, streamed and not, read some of
// the answer and leave, read it all or read it slowly, and send bodies that make no sense. Meanwhile counters may not fall and memory may not grow. Afterwards
// every block must be back, every answer accounted for, the books balanced, and the server well.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "base/heap_keeper.h"
#include "engine/fake_runner.h"
#include "engine/parts.h"
#include "serve/api.h"
#include "serve/frontend.h"
#include "serve/http_server.h"
#include "support/byte_tokenizer.h"
#include "support/http_client.h"
#include "support/metrics_watch.h"
#include "watch.h"

namespace isotope::test {
namespace {

using Clock = std::chrono::steady_clock;
using serve::dump;
using serve::Json;

constexpr int64_t kContext = 512;
constexpr int kBlock = 4;

struct Rig {
  std::vector<engine::test::FakeRunner*> runners;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<serve::Frontend> front;
  std::unique_ptr<serve::ApiHandler> api;
  std::unique_ptr<serve::HttpServer> http;
};

engine::Parts make_parts(int streams, int rank) {
  engine::Parts parts;
  parts.options = {.first_rank = rank, .block_size = kBlock, .max_num_seqs = std::max(8, streams / 2), .max_num_batched_tokens = 256, .preempt_every = 37};
  parts.info = {.name = "soak", .vocab = ByteTokenizer::kSize, .context_length = kContext, .max_model_len = kContext, .eos_ids = {ByteTokenizer::kEos}, .fingerprint = "fp"};
  parts.vocab.chat_template = "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}";
  parts.groups = {{600, 0}, {600, 16}};   // too few for all: preemption is part of the test
  parts.housekeeping = {.metrics_interval_s = 0.1, .device_timer = true};
  parts.delayer = {.stall_ticks = 4, .decode_interval = 1, .log_every = 0};
  parts.balancing = {.slack = 0, .min_tokens = 16};
  return parts;
}

Rig make_rig(int streams, int engines, bool together) {
  Rig rig;
  std::vector<engine::Parts> ranks;
  for (int rank = 0; rank < engines; ++rank) {
    ranks.push_back(make_parts(streams, rank));
    ranks.back().lockstep = together;
    auto runner = std::make_unique<engine::test::FakeRunner>(ByteTokenizer::kSize, kBlock, ranks.back().groups);
    runner->step_time = std::chrono::microseconds(200);
    rig.runners.push_back(runner.get());
    ranks.back().runner = std::move(runner);
  }
  rig.engine = engines == 1 ? engine::make_engine(std::move(ranks[0])) : engine::make_data_parallel_engine(std::move(ranks), {.ranks = engines, .session_affinity = true});
  rig.front = *serve::Frontend::create(*rig.engine, std::make_unique<ByteTokenizer>(), {});
  rig.api = std::make_unique<serve::ApiHandler>(serve::ApiOptions{.version = "soak"});
  rig.api->ready(*rig.front);
  rig.http = *serve::HttpServer::listen({.port = 0, .io_threads = 2}, *rig.api);
  return rig;
}

std::string random_call(std::mt19937& rng, bool chat) {
  const auto pick = [&](int n) { return int(rng() % unsigned(n)); };
  // Few beginnings, so that the prefix cache is shared; many ends.
  std::string prompt = std::string(size_t(pick(4)) * 40, char('a' + pick(3))) + std::to_string(pick(50));
  Json body = {{"max_tokens", pick(120)}, {"n", 1 + pick(3)}, {"stream", pick(3) != 0}, {"temperature", pick(2)}, {"seed", pick(5)}};
  if (chat) {
    body["messages"] = Json::array({{{"role", "user"}, {"content", prompt}}});
  } else {
    body["prompt"] = prompt;
    if (pick(3) == 0) body["echo"] = true;
  }
  if (pick(3) == 0) body[chat ? "logprobs" : "prompt"] = chat ? Json(true) : Json(prompt);
  if (pick(2) == 0) body["stop"] = Json::array({"a", "zq"});
  if (pick(9) == 0) body["priority"] = -pick(3);  // a few go before all others: the other way round, a few would wait for ever where there is always work
  if (pick(9) == 0) body["deadline_ms"] = 1 + pick(2000);
  if (pick(9) == 0) body["cache_salt"] = std::string(1, char('a' + pick(3)));
  if (pick(9) == 0) body["cache_control"] = {{"type", "ephemeral"}, {"ttl", "1s"}};
  if (pick(9) == 0) body["user"] = "user " + std::to_string(pick(4));
  return dump(body);
}

/// What no client of good will sends.
std::string bad_body(std::mt19937& rng) {
  static const char* const kBad[] = {"", "{", "[]", "{\"prompt\": 7}", "{\"prompt\": \"a\", \"max_tokens\": -1}", "{\"prompt\": \"a\", \"temperature\": \"hot\"}",
                                     "{\"prompt\": [1, 99999999]}", "{\"prompt\": \"a\", \"n\": 100000}", "{\"messages\": {}}", "\xff\xfe", "{\"prompt\": \"\\ud800\"}",
                                     "{\"prompt\": \"a\", \"data_parallel_rank\": 99}", "{\"prompt\": \"a\", \"logit_bias\": {\"x\": 1}}"};
  if (rng() % 10 == 0) return std::string(5000, '[');
  return kBad[rng() % std::size(kBad)];
}

struct Counts {
  std::atomic<int64_t> whole{0}, left{0}, slow{0}, bad{0}, refused{0}, wrong{0};
};

class Client {
 public:
  Client(int port, unsigned seed, Clock::time_point end, Counts& counts) : port_(port), rng_(seed), end_(end), counts_(counts) {}
  void run() {
    while (Clock::now() < end_) {
      HttpClient c(port_);
      if (rng_() % 20 == 0) c.set_receive_buffer(4096);
      for (int i = 0; i < 3 && Clock::now() < end_ && turn(c); ++i) {
      }
    }
  }

 private:
  /// False: the connection is over.
  bool turn(HttpClient& c) {
    const bool chat = rng_() % 2 != 0;
    const char* path = chat ? "/v1/chat/completions" : "/v1/completions";
    if (rng_() % 12 == 0) return bad_turn(c, path);
    std::vector<std::pair<std::string, std::string>> headers;
    if (rng_() % 2 != 0) headers.emplace_back("X-Dynamo-Session-ID", "session-" + std::to_string(rng_() % 20));
    const auto sent = Clock::now();
    const std::string body = random_call(rng_, chat);
    c.send(HttpClient::request("POST", path, body, headers));
    if (rng_() % 3 == 0) return leave(c);
    if (rng_() % 20 == 0) return read_slowly(c);
    const HttpReply r = c.read(false, 120);
    const bool fine = r.complete && r.status == 200 && (r.chunked ? r.body.ends_with("data: [DONE]\n\n") : r.body.find("\"usage\"") != std::string::npos);
    if (fine) return ++counts_.whole;
    const bool late = r.complete && (r.status == 503 || (r.chunked && r.body.find("\"code\":503") != std::string::npos)) && r.body.find("deadline_ms") != std::string::npos;
    if (r.status == 429 || late) return ++counts_.refused;
    return wrong(r, sent, body);
  }

  bool bad_turn(HttpClient& c, const char* path) {
    const auto sent = Clock::now();
    const std::string body = bad_body(rng_);
    c.send(HttpClient::request("POST", path, body));
    const HttpReply r = c.read(false, 120);
    if (r.status < 400 || r.status >= 500 || r.body.find("\"error\"") == std::string::npos) return wrong(r, sent, body);
    ++counts_.bad;
    return true;
  }

  bool leave(HttpClient& c) {  // at once, after a moment, or after the first bytes
    if (rng_() % 2 != 0) std::this_thread::sleep_for(std::chrono::microseconds(rng_() % 20000));
    if (rng_() % 2 != 0) c.read_some(5);
    ++counts_.left;
    return false;
  }

  bool read_slowly(HttpClient& c) {
    for (int i = 0; i < 40 && !c.read_some(5).empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(rng_() % 30));
    ++counts_.slow;
    return false;
  }

  bool wrong(const HttpReply& r, Clock::time_point sent, const std::string& body) {
    ++counts_.wrong;
    std::fprintf(stderr, "status %d, complete %d, after %.1f s: %s\n  to %s\n", r.status, r.complete, std::chrono::duration<double>(Clock::now() - sent).count(),
                 r.body.substr(0, 300).c_str(), body.substr(0, 300).c_str());
    return false;
  }

  int port_;
  std::mt19937 rng_;
  Clock::time_point end_;
  Counts& counts_;
};

bool check(bool holds, const char* what) {
  if (!holds) std::fprintf(stderr, "soak: FAILED: %s\n", what);
  return holds;
}

/// What the server tells of itself while the clients are at work.
struct Polls {
  int64_t polls = 0, well = 0;
  std::string wrong;
  MetricsWatch metrics;
  MemoryWatch memory;

  void once(int port, double at) {
    ++polls;
    well += HttpClient::fetch(port, "GET", "/health").status == 200 ? 1 : 0;
    if (const std::string w = metrics.look(HttpClient::fetch(port, "GET", "/metrics").body); !w.empty()) wrong = w;
    HttpClient::fetch(port, "GET", "/requests");
    HttpClient::fetch(port, "GET", "/debug/gc_census");
    memory.sample(at);
  }
};

void settle(Engine& engine) {
  for (int i = 0; i < 1000 && engine.stats().running + engine.stats().waiting > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void report(const Counts& c, const Polls& p, const EngineStats& e, double seconds) {
  const auto n = [](int64_t v) { return static_cast<long long>(v); };
  std::printf("soak: %.0f s: %lld answers, %lld left, %lld slow, %lld bad bodies, %lld refused, %lld wrong; %lld steps, %lld preemptions, %lld of %lld tokens cached\n", seconds,
              n(c.whole), n(c.left), n(c.slow), n(c.bad), n(c.refused), n(c.wrong), n(e.steps), n(e.preemptions), n(e.prefix_hits), n(e.prefix_queries));
  std::printf("soak: %lld scrapes; resident %.1f MiB, second half %+.2f MiB, %+.3f MiB/min\n", n(p.polls), double(resident_bytes()) / 0x1p20, p.memory.growth() / 0x1p20,
              p.memory.slope() * 60 / 0x1p20);
}

/// Half of the time is over, or all of it: what the allocator holds and nobody uses goes back, and what is left is compared. Fragmentation of the moment, which
/// comes and goes, would hide a leak or look like one. A server that leaks a hundred bytes a call grows by MiB in ten minutes; a short run shows a gross leak only.
bool memory_holds(int64_t half, int64_t whole, double seconds) {
  const double grown = double(whole - half) / 0x1p20;
  std::printf("soak: resident %.1f MiB after half the time, %.1f MiB in the end, the allocator's slack given back\n", double(half) / 0x1p20, double(whole) / 0x1p20);
  return seconds < 300 ? grown < 64 : grown < 2;
}

int64_t resident_when_swept() {
  for (int g : {0, 2, 2}) base::HeapKeeper::process().sweep(g);
  return resident_bytes();
}

int run(double seconds, int streams, int engines, bool together) {
  Rig rig = make_rig(streams, engines, together);
  const int port = rig.http->port();
  base::HeapKeeper::process().freeze();
  const EngineStats before = rig.engine->stats();
  const auto start = Clock::now(), end = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  Counts counts;
  Polls polls;
  int64_t half = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < streams; ++i) threads.emplace_back([&, i] { Client(port, unsigned(i), end, counts).run(); });
  while (Clock::now() < end) {
    polls.once(port, std::chrono::duration<double>(Clock::now() - start).count());
    if (half == 0 && Clock::now() > start + (end - start) / 2) half = resident_when_swept();
    std::this_thread::sleep_for(std::chrono::milliseconds(seconds < 300 ? 50 : 1000));
  }
  for (std::thread& t : threads) t.join();
  settle(*rig.engine);
  const int64_t whole = resident_when_swept();
  polls.once(port, seconds);
  const EngineStats after = rig.engine->stats();
  const Json load = *serve::parse_json(HttpClient::fetch(port, "GET", "/load").body);
  report(counts, polls, after, seconds);
  const std::string unbalanced = polls.metrics.settle();
  const auto records = rig.engine->records({}, 100000);
  bool ok = check(counts.wrong == 0, "an answer was wrong");
  ok &= check(counts.whole > 0 && counts.left > 0 && counts.bad > 0, "too little happened");
  ok &= check(polls.well == polls.polls, "/health did not always answer 200");
  ok &= check(polls.wrong.empty(), polls.wrong.c_str());
  ok &= check(unbalanced.empty(), unbalanced.c_str());
  ok &= check(after.running == 0 && after.waiting == 0, "requests are left in the engine");
  ok &= check(std::all_of(records.begin(), records.end(), [](const RequestRecord& r) { return r.finish != FinishReason::none; }), "a record is still open");
  ok &= check(load["server_load"] == 0, "calls are left in the server");
  ok &= check(after.blocks_free + after.blocks_evictable == before.blocks_free + before.blocks_evictable, "blocks are missing");
  ok &= check(memory_holds(half, whole, seconds), "memory grows");
  for (const auto* r : rig.runners) ok &= check(r->bad_reads == 0 && r->bad_writes == 0, "a KV cell held the wrong token");
  rig.http->drain();
  ok &= check(rig.http->wait_closed(5), "connections are left");
  rig.http.reset();
  rig.engine->shutdown(0);
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace isotope::test

int main(int argc, char** argv) {
  const auto number = [&](int i, double fallback) { return argc > i ? std::atof(argv[i]) : fallback; };
  return isotope::test::run(number(1, 3), int(number(2, 64)), std::max(1, int(number(3, 2))), argc > 4 && std::string_view(argv[4]) == "together");
}
