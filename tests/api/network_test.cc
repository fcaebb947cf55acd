// What happens on the wire: limits, keep-alive, clients that leave or read slowly, loading, shutting down.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/log.h"
#include "case_file.h"
#include "test_server.h"

namespace isotope::test {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

const std::string kLong = R"({"prompt": "abc", "max_tokens": 400, "stream": true})";

template <class F>
bool eventually(F f, double seconds = 5) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (f()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return f();
}

TEST(Network, KeepsTheConnection) {
  TestServer s;
  HttpClient c(s.port());
  for (int i = 0; i < 3; ++i) {
    c.send(HttpClient::request("POST", "/v1/completions", R"({"prompt": "«say:x»"})"));
    const HttpReply r = c.read();
    EXPECT_EQ(r.status, 200);
    EXPECT_EQ(r.headers.at("connection"), "keep-alive");
  }
}

TEST(Network, AnswersPipelinedRequestsInOrder) {
  TestServer s;
  HttpClient c(s.port());
  std::string all;
  for (const char* text : {"a", "b", "c"}) {
    all += HttpClient::request("POST", "/v1/completions", std::string(R"({"prompt": "«say:)") + text + R"(»", "stream": true})");
  }
  c.send(all);
  for (const char* text : {"a", "b", "c"}) EXPECT_EQ(answer_json(c.read())["text"], text);
}

TEST(Network, ClosesWhenAsked) {
  TestServer s;
  HttpClient c(s.port());
  c.send(HttpClient::request("GET", "/health", "", {{"Connection", "close"}}));
  EXPECT_EQ(c.read().headers.at("connection"), "close");
  EXPECT_EQ(c.read_some(), "");
}

TEST(Network, StreamsToHttp10WithoutChunks) {
  TestServer s;
  HttpClient c(s.port());
  const std::string body = R"({"prompt": "«say:x»", "stream": true})";
  c.send("POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  const HttpReply r = c.read();
  EXPECT_FALSE(r.chunked);
  EXPECT_THAT(r.body, HasSubstr("data: [DONE]\n\n"));
}

TEST(Network, ContinuesBeforeTheBody) {
  TestServer s;
  HttpClient c(s.port());
  const std::string body = R"({"prompt": "«say:x»"})";
  c.send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(c.read().status, 100);
  c.send(body);
  EXPECT_EQ(c.read().status, 200);
}

TEST(Network, TakesChunkedBodies) {
  TestServer s;
  HttpClient c(s.port());
  c.send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n{\"prompt\": \"\r\n3\r\nab\"\r\n1\r\n}\r\n0\r\n\r\n");
  EXPECT_EQ(c.read().status, 200);
}

TEST(Network, RefusesLargeBodies) {
  TestServer s({.http = {.body_limit = 1000}});
  const HttpReply r = HttpClient::fetch(s.port(), "POST", "/v1/completions", R"({"prompt": ")" + std::string(200000, 'x') + "\"}");
  EXPECT_EQ(r.status, 413);
  EXPECT_EQ(answer_json(r)["error"]["code"], 413);
  EXPECT_THAT(r.body, HasSubstr("more than 1000 bytes"));
  HttpClient chunked(s.port());
  chunked.send("POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + std::string(2000, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.read().status, 413);
}

TEST(Network, LongBodiesDoNotHoldUpShortOnes) {
  TestServer s({.http = {.worker_threads = 1}});
  std::vector<std::thread> clients;
  std::atomic<int> open{0};
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      ++open;
      const HttpReply r = HttpClient::fetch(s.port(), "POST", "/v1/completions", R"({"prompt": ")" + std::string(3 << 20, 'x') + "\"}");
      EXPECT_EQ(r.status, 400);
      --open;
    });
  }
  EXPECT_TRUE(eventually([&] { return open == 4; }));
  int answered = 0;
  while (open == 4) answered += HttpClient::fetch(s.port(), "POST", "/tokenize", R"({"prompt": "x"})").status == 200 ? 1 : 0;
  EXPECT_GT(answered, 1);
  for (std::thread& t : clients) t.join();
}

TEST(Network, RefusesTooManyLargeBodiesAtOnce) {
  TestServer s({.http = {.all_bodies_limit = 100000}});
  const std::string head = "POST /v1/completions HTTP/1.1\r\nContent-Length: 90000\r\n\r\n", part(80000, ' ');
  HttpClient first(s.port());
  first.send(head + part);
  EXPECT_TRUE(eventually([&] {  // once the server has read the first one's part
    HttpClient second(s.port());
    second.send(head + part + std::string(10000, ' '));
    return second.read().status == 503;
  }));
  first.send(std::string(10000, ' '));
  EXPECT_EQ(first.read().status, 400);
  HttpClient third(s.port());
  third.send(head + part + std::string(10000, ' '));
  EXPECT_EQ(third.read().status, 400);
}

TEST(Network, RefusesLargeHeaders) {
  TestServer s;
  const HttpReply r = HttpClient::fetch(s.port(), "GET", "/health", "", {{"X-Long", std::string(100000, 'x')}});
  EXPECT_EQ(r.status, 431);
}

TEST(Network, RefusesWhatIsNotHttp) {
  TestServer s;
  for (const char* bytes : {"\x16\x03\x01\x02\x01\x01\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /a b HTTP/1.1\r\n\r\n",
                            "POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"}) {
    HttpClient c(s.port());
    c.send(bytes);
    EXPECT_EQ(c.read().status, 400) << bytes;
  }
  EXPECT_EQ(HttpClient::fetch(s.port(), "GET", "/health").status, 200);
}

TEST(Network, GivesUpSilentClients) {
  TestServer s({.http = {.keep_alive_s = 0.1, .read_timeout_s = 0.1}});
  HttpClient idle(s.port());
  EXPECT_EQ(idle.read_some(), "");
  HttpClient slow(s.port());
  slow.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(slow.read().status, 408);
}

TEST(Network, CancelsWhenTheClientLeavesAStream) {
  TestServer s({.engine = {.step_us = 2000}});
  HttpClient c(s.port());
  c.send(HttpClient::request("POST", "/v1/completions", kLong));
  EXPECT_NE(c.read_some(), "");
  c.close();
  const int64_t steps = s.engine().stats().steps;
  EXPECT_TRUE(eventually([&] { return s.engine().finished_by_caller() == 1; }));
  EXPECT_LT(s.engine().stats().steps - steps, 100);
  EXPECT_EQ(answer_json(HttpClient::fetch(s.port(), "GET", "/load"))["server_load"], 0);
}

TEST(Network, CancelsWhenTheClientLeavesWhileWaiting) {
  TestServer s({.engine = {.step_us = 2000}});
  HttpClient c(s.port());
  c.send(HttpClient::request("POST", "/v1/completions", R"({"prompt": "abc", "max_tokens": 400, "n": 3})"));
  EXPECT_TRUE(eventually([&] { return s.engine().stats().running == 3; }));
  c.close();
  EXPECT_TRUE(eventually([&] { return s.engine().finished_by_caller() == 3; }));
}

TEST(Network, CancelsAStalledRequestWhoseClientLeaves) {
  TestServer s;
  s.engine().stall(true);
  HttpClient c(s.port());
  c.send(HttpClient::request("POST", "/v1/completions", kLong));
  EXPECT_TRUE(eventually([&] { return s.engine().stats().running == 1; }));
  c.close();
  EXPECT_TRUE(eventually([&] { return answer_json(HttpClient::fetch(s.port(), "GET", "/load"))["server_load"] == 0; }));
  s.engine().stall(false);
  EXPECT_TRUE(eventually([&] { return s.engine().finished_by_caller() == 1; }));
}

TEST(Network, LetsSlowReadersGo) {
  TestServer s({.engine = {.context = 1 << 20}, .http = {.send_buffer = 4096}, .api = {.mailbox_bytes = 20000}});
  HttpClient c(s.port());
  c.set_receive_buffer(4096);
  c.send(HttpClient::request("POST", "/v1/completions", R"({"prompt": "abc", "max_tokens": 500000, "stream": true, "logprobs": 5})"));
  EXPECT_TRUE(eventually([&] { return s.engine().finished_by_caller() == 1; }, 20));
  // Others are not held up.
  EXPECT_EQ(HttpClient::fetch(s.port(), "POST", "/v1/completions", R"({"prompt": "«say:x»"})").status, 200);
}

TEST(Network, GivesUpReadersThatStop) {
  TestServer s({.engine = {.context = 1 << 20}, .http = {.write_timeout_s = 0.3, .send_buffer = 4096}});
  HttpClient c(s.port());
  c.set_receive_buffer(4096);
  c.send(HttpClient::request("POST", "/v1/completions", R"({"prompt": "abc", "max_tokens": 500000, "stream": true})"));
  EXPECT_TRUE(eventually([&] { return s.engine().finished_by_caller() == 1; }, 20));
}

// GIVE row G02: bytes that can never become a character come out at once, one replacement character each.
TEST(Network, LoneContinuationBytesDoNotPileUp) {
  TestServer s({.engine = {.context = 4096}});
  const HttpReply r = HttpClient::fetch(s.port(), "POST", "/v1/completions",
                                        R"({"prompt": "a", "logit_bias": {"130": 100}, "max_tokens": 2000, "stream": true, "return_token_ids": true})");
  const auto answer = answer_json(r);
  std::string wanted;
  for (int i = 0; i < 2000; ++i) wanted += "\xEF\xBF\xBD";
  EXPECT_EQ(answer["text"], wanted);
  for (const auto& e : answer["events"]) {
    EXPECT_EQ(e["choices"][0]["text"].get<std::string>().size(), 3 * e["choices"][0]["token_ids"].size());
  }
}

TEST(Network, KeepsQuietStreamsAlive) {
  TestServer s({.http = {.heartbeat_s = 0.05}});
  s.engine().stall(true);
  HttpClient c(s.port());
  c.send(HttpClient::request("POST", "/v1/completions", R"({"prompt": "«say:x»", "stream": true})"));
  std::string rest;
  while (rest.find(": waiting") == std::string::npos) rest += c.read_some();
  s.engine().stall(false);
  while (rest.find("[DONE]") == std::string::npos) rest += c.read_some();
  EXPECT_THAT(rest, HasSubstr("\"text\":\"x\""));
}

TEST(Network, AnswersFromTheStartWhileLoading) {
  TestServer s({.ready = false});
  s.api().loading("reading model.gguf, 12 %");
  const HttpReply health = HttpClient::fetch(s.port(), "GET", "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(answer_json(health)["phase"], "reading model.gguf, 12 %");
  EXPECT_EQ(HttpClient::fetch(s.port(), "GET", "/v1/models").status, 503);
  const HttpReply r = HttpClient::fetch(s.port(), "POST", "/v1/completions", R"({"prompt": "a"})");
  EXPECT_EQ(r.status, 503);
  EXPECT_EQ(answer_json(r)["error"]["type"], "ServiceUnavailableError");
  EXPECT_EQ(HttpClient::fetch(s.port(), "GET", "/metrics").status, 200);
  s.make_ready();
  EXPECT_EQ(HttpClient::fetch(s.port(), "GET", "/health").status, 200);
  EXPECT_EQ(HttpClient::fetch(s.port(), "GET", "/v1/models").status, 200);
}

TEST(Network, HealthTellsAStalledEngine) {
  TestServer s({.api = {.stall_seconds = 0.05}});
  EXPECT_EQ(HttpClient::fetch(s.port(), "GET", "/health").status, 200);
  s.engine().stall(true);
  HttpClient c(s.port());
  c.send(HttpClient::request("POST", "/v1/completions", R"({"prompt": "abc"})"));
  EXPECT_TRUE(eventually([&] { return HttpClient::fetch(s.port(), "GET", "/health").status == 503; }));
  EXPECT_EQ(answer_json(HttpClient::fetch(s.port(), "GET", "/health"))["status"], "stalled");
  s.engine().stall(false);
  EXPECT_EQ(c.read().status, 200);
  EXPECT_TRUE(eventually([&] { return HttpClient::fetch(s.port(), "GET", "/health").status == 200; }));
}

TEST(Network, AsksForTheKey) {
  TestServer s({.api = {.api_keys = {"first", "second"}}});
  EXPECT_EQ(HttpClient::fetch(s.port(), "GET", "/health").status, 200);
  const HttpReply none = HttpClient::fetch(s.port(), "GET", "/v1/models");
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(answer_json(none)["error"]["type"], "AuthenticationError");
  EXPECT_EQ(answer_json(none)["error"]["code"], 401);
  EXPECT_EQ(none.headers.at("www-authenticate"), "Bearer");
  for (const char* wrong : {"Bearer ", "Bearer first1", "Bearer firs", "first", "Basic first"}) {
    EXPECT_EQ(HttpClient::fetch(s.port(), "GET", "/v1/models", "", {{"Authorization", wrong}}).status, 401) << wrong;
  }
  EXPECT_EQ(HttpClient::fetch(s.port(), "GET", "/v1/models", "", {{"Authorization", "Bearer second"}}).status, 200);
  EXPECT_EQ(HttpClient::fetch(s.port(), "GET", "/v1/models", "", {{"X-Api-Key", "first"}}).status, 200);
  EXPECT_EQ(HttpClient::fetch(s.port(), "POST", "/completions", R"({"prompt": "a"})").status, 401);
}

TEST(Network, AnEmptyKeyOpensNothing) {
  TestServer s({.api = {.api_keys = {""}}});
  EXPECT_EQ(HttpClient::fetch(s.port(), "GET", "/v1/models").status, 401);
  EXPECT_EQ(HttpClient::fetch(s.port(), "GET", "/v1/models", "", {{"Authorization", "Bearer "}}).status, 401);
  EXPECT_EQ(HttpClient::fetch(s.port(), "GET", "/v1/models", "", {{"X-Api-Key", ""}}).status, 401);
}

TEST(Network, ServesUnderSeveralNames) {
  TestServer s({.api = {.served_names = {"first", "second"}}});
  const auto models = answer_json(HttpClient::fetch(s.port(), "GET", "/v1/models"));
  EXPECT_EQ(models["data"].size(), 2u);
  const HttpReply r = HttpClient::fetch(s.port(), "POST", "/v1/completions", R"({"model": "second", "prompt": "«say:x»"})");
  EXPECT_EQ(answer_json(r)["model"], "second");
  const HttpReply stream = HttpClient::fetch(s.port(), "POST", "/v1/completions", R"({"model": "second", "prompt": "«say:x»", "stream": true})");
  for (const auto& e : answer_json(stream)["events"]) EXPECT_EQ(e["model"], "second");
  EXPECT_EQ(answer_json(HttpClient::fetch(s.port(), "POST", "/v1/completions", R"({"prompt": "«say:x»"})"))["model"], "first");
}

TEST(Network, TheServersSeedIsThatOfRequestsWithoutOne) {
  TestServer s({.front = {.sampling_overrides = {.seed = 7}}});
  const auto seed = [&](const char* body) { return answer_json(HttpClient::fetch(s.port(), "POST", "/v1/completions", body))["timings"]["seed"]; };
  EXPECT_EQ(seed(R"({"prompt": "«say:x»", "timings": true})"), 7);
  EXPECT_EQ(seed(R"({"prompt": "«say:x»", "timings": true, "seed": 8})"), 8);
}

TEST(Network, WrongMethodsNameTheRightOnes) {
  TestServer s;
  struct Row {
    const char *method, *path, *allow;
  };
  for (const Row& r : {Row{"GET", "/v1/completions", "POST, OPTIONS"}, Row{"PUT", "/v1/completions", "POST, OPTIONS"},
                       Row{"DELETE", "/v1/models", "GET, HEAD, OPTIONS"}, Row{"POST", "/health", "GET, HEAD, OPTIONS"},
                       Row{"PATCH", "/ping", "GET, POST, HEAD, OPTIONS"}, Row{"HEAD", "/tokenize", "POST, OPTIONS"}}) {
    const HttpReply reply = HttpClient::fetch(s.port(), r.method, r.path);
    EXPECT_EQ(reply.status, 405) << r.method << " " << r.path;
    EXPECT_EQ(reply.headers.at("allow"), r.allow) << r.method << " " << r.path;
  }
  EXPECT_THAT(HttpClient::fetch(s.port(), "PUT", "/v1/completions").body, HasSubstr("use POST"));
}

TEST(Network, OnlyListedOriginsMayAsk) {
  TestServer s({.http = {.allowed_origins = {"http://a"}}});
  EXPECT_EQ(HttpClient::fetch(s.port(), "GET", "/health", "", {{"Origin", "http://a"}}).headers.count("access-control-allow-origin"), 1u);
  EXPECT_EQ(HttpClient::fetch(s.port(), "GET", "/health", "", {{"Origin", "http://b"}}).headers.count("access-control-allow-origin"), 0u);
}

TEST(Network, SaysWhenTheQueueIsFull) {
  TestServer s({.engine = {.max_waiting = 4}});
  s.engine().stall(true);
  HttpClient c(s.port());
  c.send(HttpClient::request("POST", "/v1/completions", R"({"prompt": "abc", "n": 3})"));
  EXPECT_TRUE(eventually([&] { return s.engine().stats().running == 3; }));
  const HttpReply r = HttpClient::fetch(s.port(), "POST", "/v1/completions", R"({"prompt": "abc", "n": 3})");
  EXPECT_EQ(r.status, 429);
  EXPECT_EQ(answer_json(r)["error"]["type"], "RateLimitError");
  EXPECT_EQ(r.headers.at("retry-after"), "1");
  s.engine().stall(false);
  EXPECT_EQ(c.read().status, 200);
  EXPECT_TRUE(eventually([&] { return s.engine().stats().running == 0; }));
  EXPECT_EQ(answer_json(HttpClient::fetch(s.port(), "GET", "/load"))["server_load"], 0);
}

TEST(Network, DrainsThenEndsStreamsWithAnError) {
  TestServer s({.engine = {.context = 1 << 20, .step_us = 1000}});
  HttpClient stream(s.port()), whole(s.port()), idle(s.port());
  EXPECT_TRUE(idle.send(HttpClient::request("GET", "/health", "")));
  EXPECT_EQ(idle.read().status, 200);
  stream.send(HttpClient::request("POST", "/v1/completions", R"({"prompt": "abc", "max_tokens": 500000, "stream": true})"));
  whole.send(HttpClient::request("POST", "/v1/completions", R"({"prompt": "abc", "max_tokens": 500000})"));
  EXPECT_TRUE(eventually([&] { return s.engine().stats().running == 2; }));
  std::this_thread::sleep_for(20ms);
  s.api().drain();
  s.http().drain();
  EXPECT_EQ(idle.read_some(), "");
  EXPECT_FALSE(s.http().wait_closed(0.05));
  // While answers run, whoever comes is told.
  const HttpReply late = HttpClient::fetch(s.port(), "POST", "/v1/completions", R"({"prompt": "a"})");
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(late.headers.at("connection"), "close");
  EXPECT_EQ(answer_json(late)["error"]["type"], "ServiceUnavailableError");
  const HttpReply health = HttpClient::fetch(s.port(), "GET", "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(answer_json(health)["status"], "draining");
  HttpClient silent(s.port());  // nobody waits for it
  s.http().end_answers(Error{Code::unavailable, "the server is shutting down"});
  EXPECT_TRUE(s.http().wait_closed(5));
  const HttpReply r = stream.read();
  EXPECT_TRUE(r.complete);
  const auto events = answer_json(r);
  EXPECT_EQ(events["done"], true);
  EXPECT_EQ(events["events"].back()["error"]["code"], 503);
  EXPECT_EQ(whole.read().status, 503);
  EXPECT_TRUE(eventually([&] { return s.engine().stats().running == 0; }));
  EXPECT_TRUE(eventually([&] { return !HttpClient(s.port()).connected(); }));
}

// GIVE row G09: what is logged at the most verbose level must not look a bad id up before it is refused.
TEST(Network, BadIdsAreRefusedUnderVerboseLogging) {
  base::set_log_sink([](base::LogLevel, std::string_view) {}, base::LogLevel::debug);
  TestServer s;
  for (const char* prompt : {"[-1]", "[[-1]]", "[262]", "[1099511627776]", "[1.5]", "[]"}) {
    const HttpReply r = HttpClient::fetch(s.port(), "POST", "/v1/completions", std::string(R"({"prompt": )") + prompt + "}");
    EXPECT_EQ(r.status, 400) << prompt;
  }
  EXPECT_EQ(HttpClient::fetch(s.port(), "POST", "/v1/completions", R"({"prompt": "«say:x»"})").status, 200);
  base::set_log_sink(nullptr);
}

TEST(Network, PortInUseIsAClearError) {
  TestServer s;
  serve::ApiHandler api({});
  const auto second = serve::HttpServer::listen({.port = s.port()}, api);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message(), HasSubstr("already in use"));
}

TEST(Network, ModelWithoutBeginTokenRefusesTheEmptyPrompt) {
  TestServer s({.bos = false});
  const HttpReply r = HttpClient::fetch(s.port(), "POST", "/v1/completions", R"({"prompt": ""})");
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(answer_json(r)["error"]["param"], "prompt");
  EXPECT_EQ(HttpClient::fetch(s.port(), "POST", "/v1/completions", R"({"prompt": [""]})").status, 400);
  EXPECT_EQ(HttpClient::fetch(s.port(), "POST", "/v1/completions", R"({"prompt": "«say:x»"})").status, 200);
}

}  // namespace
}  // namespace isotope::test
