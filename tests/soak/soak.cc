// soak [SECONDS [STREAMS]]: a real server with the real engine on a model of arithmetic. Clients send random calls, streamed and not, read some of
// the answer and leave, or read it all. Afterwards every block must be back, every answer accounted for, and the server well.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "engine/fake_runner.h"
#include "engine/parts.h"
#include "serve/api.h"
#include "serve/frontend.h"
#include "serve/http_server.h"
#include "support/byte_tokenizer.h"
#include "support/http_client.h"

namespace isotope::test {
namespace {

using Clock = std::chrono::steady_clock;
using serve::dump;
using serve::Json;

constexpr int64_t kContext = 512;
constexpr int kBlock = 4;

struct Rig {
  engine::test::FakeRunner* runner = nullptr;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<serve::Frontend> front;
  std::unique_ptr<serve::ApiHandler> api;
  std::unique_ptr<serve::HttpServer> http;
};

Rig make_rig(int streams) {
  Rig rig;
  engine::Parts parts;
  parts.options = {.block_size = kBlock, .max_num_seqs = std::max(8, streams / 2), .max_num_batched_tokens = 256, .preempt_every = 37};
  parts.info = {.name = "soak", .vocab = ByteTokenizer::kSize, .context_length = kContext, .max_model_len = kContext, .eos_ids = {ByteTokenizer::kEos}, .fingerprint = "fp"};
  parts.vocab.chat_template = "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}";
  parts.groups = {{600, 0}, {600, 16}};   // too few for all: preemption is part of the test
  auto runner = std::make_unique<engine::test::FakeRunner>(ByteTokenizer::kSize, kBlock, parts.groups);
  runner->step_time = std::chrono::microseconds(200);
  rig.runner = runner.get();
  parts.runner = std::move(runner);
  rig.engine = engine::make_engine(std::move(parts));
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
  if (pick(9) == 0) body["priority"] = pick(3);
  return dump(body);
}

struct Counts {
  std::atomic<int64_t> whole{0}, left{0}, refused{0}, wrong{0};
};

void client(int port, unsigned seed, Clock::time_point end, Counts& counts) {
  std::mt19937 rng(seed);
  while (Clock::now() < end) {
    HttpClient c(port);
    for (int i = 0; i < 3 && Clock::now() < end; ++i) {
      const bool chat = rng() % 2 != 0;
      c.send(HttpClient::request("POST", chat ? "/v1/chat/completions" : "/v1/completions", random_call(rng, chat)));
      if (rng() % 3 == 0) {
        // Leaves: at once, after a moment, or after the first bytes.
        if (rng() % 2 != 0) std::this_thread::sleep_for(std::chrono::microseconds(rng() % 20000));
        if (rng() % 2 != 0) c.read_some(5);
        ++counts.left;
        break;
      }
      const HttpReply r = c.read(false, 60);
      const bool fine = r.complete && r.status == 200 && (r.chunked ? r.body.ends_with("data: [DONE]\n\n") : r.body.find("\"usage\"") != std::string::npos);
      if (fine) {
        ++counts.whole;
      } else if (r.status == 429) {
        ++counts.refused;
      } else {
        ++counts.wrong;
        std::fprintf(stderr, "status %d, complete %d: %s\n", r.status, r.complete, r.body.substr(0, 300).c_str());
        break;
      }
    }
  }
}

bool check(bool holds, const char* what) {
  if (!holds) std::fprintf(stderr, "soak: FAILED: %s\n", what);
  return holds;
}

int run(double seconds, int streams) {
  Rig rig = make_rig(streams);
  const EngineStats before = rig.engine->stats();
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  Counts counts;
  std::vector<std::thread> threads;
  for (int i = 0; i < streams; ++i) threads.emplace_back(client, rig.http->port(), unsigned(i), end, std::ref(counts));
  int64_t polls = 0, well = 0;
  while (Clock::now() < end) {
    well += HttpClient::fetch(rig.http->port(), "GET", "/health").status == 200 ? 1 : 0;
    HttpClient::fetch(rig.http->port(), "GET", "/metrics");
    ++polls;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  for (std::thread& t : threads) t.join();
  EngineStats after = rig.engine->stats();
  for (int i = 0; i < 500 && after.running + after.waiting > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    after = rig.engine->stats();
  }
  const Json load = *serve::parse_json(HttpClient::fetch(rig.http->port(), "GET", "/load").body);
  std::printf("soak: %d clients, %.0f s: %lld answers, %lld left, %lld refused, %lld wrong; %lld steps, %lld preemptions, %lld of %lld tokens cached\n", streams, seconds,
              static_cast<long long>(counts.whole), static_cast<long long>(counts.left), static_cast<long long>(counts.refused), static_cast<long long>(counts.wrong),
              static_cast<long long>(after.steps), static_cast<long long>(after.preemptions), static_cast<long long>(after.prefix_hits), static_cast<long long>(after.prefix_queries));
  bool ok = check(counts.wrong == 0, "an answer was wrong");
  ok &= check(counts.whole > 0 && counts.left > 0, "too little happened");
  ok &= check(well == polls, "/health did not always answer 200");
  ok &= check(after.running == 0 && after.waiting == 0, "requests are left in the engine");
  ok &= check(load["server_load"] == 0, "calls are left in the server");
  ok &= check(after.blocks_free + after.blocks_evictable == before.blocks_free + before.blocks_evictable, "blocks are missing");
  ok &= check(rig.runner->bad_reads == 0 && rig.runner->bad_writes == 0, "a KV cell held the wrong token");
  rig.http->drain();
  ok &= check(rig.http->wait_closed(5), "connections are left");
  rig.http.reset();
  rig.engine->shutdown(0);
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace isotope::test

int main(int argc, char** argv) {
  return isotope::test::run(argc > 1 ? std::atof(argv[1]) : 3, argc > 2 ? std::atoi(argv[2]) : 64);
}
