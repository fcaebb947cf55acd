// Several models behind one server: loading on demand, pinning, idle unloading, limits, and answers that keep their model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "case_file.h"
#include "serve/switch.h"
#include "test_server.h"

namespace isotope::test {
namespace {

using namespace std::chrono_literals;
using serve::dump;
using serve::Json;
using testing::HasSubstr;

/// What a test sees of one model of the server.
struct Model {
  std::string name;
  std::atomic<int> opened = 0, alive = 0;
  std::atomic<bool> hold = false;      ///< opening waits
  std::atomic<bool> broken = false;    ///< opening fails
  FakeEngine* engine = nullptr;
};

class FakeServed final : public serve::ServedModel {
 public:
  explicit FakeServed(Model& m) : model_(m), engine_(std::make_unique<FakeEngine>(FakeOptions{.step_us = 200})) {
    front_ = *serve::Frontend::create(*engine_, std::make_unique<ByteTokenizer>(), {});
    model_.engine = engine_.get();
    ++model_.alive;
  }
  ~FakeServed() override { --model_.alive; }
  serve::Frontend& front() override { return *front_; }

 private:
  Model& model_;
  std::unique_ptr<FakeEngine> engine_;
  std::unique_ptr<serve::Frontend> front_;
};

struct Options {
  int most = 0;
  double idle_s = 0;
  bool autoload = true, pin_b = false;
  std::function<size_t()> free = {};
  std::vector<std::string> keys = {};
};

class Switched : public testing::Test {
 protected:
  void start(Options o = {}) {
    serve::SwitchOptions s{.api = {.api_keys = o.keys, .version = "test"}, .most_loaded = o.most, .autoload = o.autoload, .free_bytes = o.free};
    for (Model* m : {&a_, &b_, &c_}) {
      s.models.push_back({.names = {m->name}, .path = "/models/" + m->name, .bytes = 100 << 20, .pinned = o.pin_b && m == &b_, .idle_s = o.idle_s,
                          .open = [m](const std::function<void(const std::string&)>& phase) -> Result<std::unique_ptr<serve::ServedModel>> {
                            ++m->opened;
                            phase("reading");
                            while (m->hold) std::this_thread::sleep_for(1ms);
                            if (m->broken) return fail(Code::data_loss, "the file is cut", m->name, "fetch it again");
                            return std::make_unique<FakeServed>(*m);
                          }});
    }
    s.models.front().names.push_back("alias");
    switch_ = std::make_unique<serve::SwitchHandler>(std::move(s));
    http_ = *serve::HttpServer::listen({.port = 0}, *switch_);
    ASSERT_TRUE(switch_->start({}));
  }
  void TearDown() override {
    for (Model* m : {&a_, &b_, &c_}) m->hold = false;
    if (!switch_) return;
    switch_->drain();
    http_->drain();
    http_->end_answers(Error{Code::unavailable, "the end"});
    http_->wait_closed(5);
    http_.reset();
    switch_.reset();
    for (Model* m : {&a_, &b_, &c_}) EXPECT_EQ(m->alive, 0);
  }
  HttpReply post(const std::string& path, const Json& body, std::vector<std::pair<std::string, std::string>> headers = {}) {
    return HttpClient::fetch(http_->port(), "POST", path, dump(body), headers);
  }
  HttpReply get(const std::string& path) { return HttpClient::fetch(http_->port(), "GET", path); }
  HttpReply complete(const std::string& model, int tokens = 3) { return post("/v1/completions", {{"model", model}, {"prompt", "«say:hello»"}, {"max_tokens", tokens}}); }
  std::string state(const std::string& name) { return answer_json(get("/v1/models/" + name))["status"]["value"]; }
  template <class F>
  static bool soon(F f) {
    for (int i = 0; i < 2000; ++i, std::this_thread::sleep_for(2ms))
      if (f()) return true;
    return false;
  }

  Model a_{"a"}, b_{"b"}, c_{"c"};
  std::unique_ptr<serve::SwitchHandler> switch_;
  std::unique_ptr<serve::HttpServer> http_;
};

TEST_F(Switched, ModelsComeWhenTheyAreNamed) {
  start();
  EXPECT_EQ(state("a"), "loaded");
  EXPECT_EQ(state("b"), "unloaded");
  const Json answer = answer_json(complete("b"));
  EXPECT_EQ(answer["model"], "b");
  EXPECT_EQ(state("b"), "loaded");
  EXPECT_EQ(b_.opened, 1);
  EXPECT_EQ(complete("b").status, 200);
  EXPECT_EQ(b_.opened, 1);
  EXPECT_EQ(c_.opened, 0);
  EXPECT_EQ(answer_json(post("/v1/completions", {{"prompt", "x"}, {"max_tokens", 1}}))["model"], "a") << "no model named: the first";
  EXPECT_EQ(answer_json(complete("alias"))["model"], "alias");
  EXPECT_EQ(answer_json(post("/tokenize", {{"model", "b"}, {"prompt", "x"}}))["count"], 2);
  EXPECT_EQ(answer_json(post("/v1/embeddings", {{"model", "c"}, {"input", "x"}}))["model"], "c");
}

TEST_F(Switched, ListsAllWithTheirState) {
  start({.idle_s = 1000, .pin_b = true});
  const Json list = answer_json(get("/v1/models"));
  std::vector<std::string> seen;
  for (const Json& m : list["data"]) seen.push_back(m["id"].get<std::string>() + ":" + m["status"]["value"].get<std::string>());
  EXPECT_THAT(seen, testing::ElementsAre("a:loaded", "alias:loaded", "b:loaded", "c:unloaded"));
  EXPECT_EQ(list["data"][2]["status"]["pinned"], true);
  EXPECT_EQ(list["data"][3]["status"]["unloads_after_s"], 1000);
  EXPECT_EQ(get("/v1/models/none").status, 404);
}

TEST_F(Switched, UnknownModelsAreNamedWithThoseThatExist) {
  start();
  const HttpReply r = complete("nobody");
  EXPECT_EQ(r.status, 404);
  EXPECT_EQ(answer_json(r)["error"]["param"], "model");
  EXPECT_THAT(r.body, HasSubstr("nobody"));
  for (const char* name : {"\\\"a\\\"", "\\\"b\\\"", "\\\"c\\\""}) EXPECT_THAT(r.body, HasSubstr(name));
  EXPECT_EQ(answer_json(post("/v1/messages", {{"model", "nobody"}, {"max_tokens", 1}, {"messages", Json::array()}}))["type"], "error") << "in Anthropic's shape";
  EXPECT_EQ(get("/nothing").status, 404);
  EXPECT_EQ(get("/v1/completions").status, 405);
  EXPECT_EQ(post("/v1/completions", {{"model", 5}, {"prompt", "x"}}).status, 400) << "the model's own check";
}

TEST_F(Switched, RequestsWaitTogetherForOneLoad) {
  b_.hold = true;
  start();
  std::vector<std::thread> clients;
  std::atomic<int> good = 0;
  for (int i = 0; i < 12; ++i) clients.emplace_back([&] { good += complete("b").status == 200; });
  EXPECT_TRUE(soon([&] { return state("b") == "loading"; }));
  EXPECT_EQ(complete("a").status, 200) << "others are served meanwhile";
  EXPECT_EQ(get("/health").status, 200);
  b_.hold = false;
  for (auto& t : clients) t.join();
  EXPECT_EQ(good, 12);
  EXPECT_EQ(b_.opened, 1);
}

TEST_F(Switched, StreamsAsTheModelDoes) {
  start();
  const HttpReply r = post("/v1/completions", {{"model", "b"}, {"prompt", "«say:hello»"}, {"stream", true}, {"max_tokens", 20}});
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(answer_json(r)["text"], "hello");
  EXPECT_EQ(answer_json(r)["done"], true);
}

TEST_F(Switched, AModelThatCannotBeLoadedSaysWhyAndIsTriedAgain) {
  b_.broken = true;
  start();
  const HttpReply r = complete("b");
  EXPECT_EQ(r.status, 500);
  EXPECT_THAT(r.body, HasSubstr("the file is cut"));
  const Json card = answer_json(get("/v1/models/b"));
  EXPECT_EQ(card["status"]["failed"], true);
  EXPECT_THAT(card["status"]["error"].get<std::string>(), HasSubstr("the file is cut"));
  b_.broken = false;
  EXPECT_EQ(complete("b").status, 200);
  EXPECT_EQ(complete("a").status, 200);
}

TEST_F(Switched, TheLeastRecentlyUsedMakesRoom) {
  start({.most = 2});
  EXPECT_EQ(complete("b").status, 200);
  EXPECT_EQ(complete("a").status, 200);
  EXPECT_EQ(complete("c").status, 200);
  EXPECT_EQ(state("b"), "unloaded");
  EXPECT_EQ(state("a"), "loaded");
  EXPECT_EQ(b_.alive, 0);
}

TEST_F(Switched, PinnedModelsStay) {
  start({.most = 2, .idle_s = 0.05, .pin_b = true});
  EXPECT_TRUE(soon([&] { return state("a") == "unloaded"; })) << "idle";
  EXPECT_EQ(complete("c").status, 200);
  EXPECT_EQ(complete("a").status, 200);
  EXPECT_EQ(state("b"), "loaded");
  const HttpReply r = post("/models/unload", {{"model", "b"}});
  EXPECT_EQ(r.status, 400);
  EXPECT_THAT(r.body, HasSubstr("pinned"));
}

TEST_F(Switched, MemoryIsCheckedWithNumbers) {
  std::atomic<size_t> left = size_t(1) << 30;
  start({.pin_b = true, .free = [&] { return left.load(); }});
  left = 40 << 20;
  const HttpReply r = complete("c");
  EXPECT_EQ(r.status, 503);
  EXPECT_THAT(r.body, HasSubstr("100.0 MiB"));
  EXPECT_THAT(r.body, HasSubstr("40.0 MiB"));
  EXPECT_EQ(state("a"), "unloaded") << "what could go has gone";
  EXPECT_EQ(c_.opened, 0);
  left = 200 << 20;
  EXPECT_EQ(complete("c").status, 200);
}

TEST_F(Switched, AnswersUnderWayKeepTheirModel) {
  start({.most = 1, .idle_s = 0.05});
  a_.engine->stall(true);
  HttpReply slow;
  std::thread client([&] { slow = complete("a", 30); });
  EXPECT_TRUE(soon([&] { return answer_json(get("/v1/models/a"))["status"].value("active", 0) == 1; }));
  std::this_thread::sleep_for(150ms);
  EXPECT_EQ(state("a"), "loaded") << "busy is not idle";
  const HttpReply refused = complete("b");
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("at most 1"));
  EXPECT_EQ(post("/models/unload", {{"model", "a"}}).status, 200);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(a_.alive, 1);
  a_.engine->stall(false);
  client.join();
  EXPECT_EQ(slow.status, 200);
  EXPECT_TRUE(soon([&] { return a_.alive == 0; }));
  EXPECT_EQ(complete("b").status, 200);
}

TEST_F(Switched, LoadsAndUnloadsOnWish) {
  start({.autoload = false});
  const HttpReply r = complete("b");
  EXPECT_EQ(r.status, 503);
  EXPECT_THAT(r.body, HasSubstr("/models/load"));
  EXPECT_EQ(post("/models/load", {{"model", "b"}}).status, 200);
  EXPECT_TRUE(soon([&] { return state("b") == "loaded"; }));
  EXPECT_EQ(complete("b").status, 200);
  EXPECT_EQ(post("/models/unload", {{"model", "b"}}).status, 200);
  EXPECT_TRUE(soon([&] { return state("b") == "unloaded"; }));
  EXPECT_EQ(post("/models/load", Json::object()).status, 400);
  EXPECT_EQ(post("/models/load", {{"model", "x"}}).status, 404);
}

TEST_F(Switched, BodiesOfLoadingAreChecked) {
  start({.autoload = false});
  struct Case {
    Json body;
    const char *field, *says;
  };
  for (const char* path : {"/models/load", "/models/unload"})
    for (const Case& c : {Case{{{"model", "b"}, {"modle", "a"}}, "modle", "there is no field"}, {{{"model", 5}}, "model", "expected a string"}, {{{"model", nullptr}}, "model", "names no model"},
                          {{{"model", "b"}, {"extra_args", Json::array()}}, "extra_args", "there is no field"}, {Json::array({"b"}), nullptr, "must be a JSON object"}}) {
      const HttpReply r = post(path, c.body);
      EXPECT_EQ(r.status, 400) << r.body;
      const Json error = Json::parse(r.body)["error"];
      EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(c.says));
      if (c.field) EXPECT_EQ(error["param"], c.field);
    }
  EXPECT_EQ(b_.opened, 0);
}

TEST_F(Switched, KeysComeBeforeLoading) {
  start({.keys = {"secret"}});
  EXPECT_EQ(complete("b").status, 401);
  EXPECT_EQ(post("/models/load", {{"model", "b"}}).status, 401);
  EXPECT_EQ(b_.opened, 0);
  EXPECT_EQ(post("/v1/completions", {{"model", "b"}, {"prompt", "x"}, {"max_tokens", 1}}, {{"Authorization", "Bearer secret"}}).status, 200);
}

TEST_F(Switched, MetricsOfAllModelsAreOneText) {
  start();
  EXPECT_EQ(complete("b").status, 200);
  const std::string text = get("/metrics").body;
  EXPECT_THAT(text, HasSubstr("isotope:models_loaded 2"));
  const std::string type = "# TYPE vllm:num_requests_running gauge\n";
  EXPECT_EQ(text.find(type, text.find(type) + 1), std::string::npos) << "each family once";
}

TEST_F(Switched, AMessageWhoseModelDoesNotComeFailsInItsShape) {
  b_.broken = true;
  start();
  const HttpReply reply = post("/v1/messages", {{"model", "b"}, {"max_tokens", 3}, {"messages", Json::array({{{"role", "user"}, {"content", "x"}}})}});
  EXPECT_GE(reply.status, 400);
  EXPECT_EQ(answer_json(reply)["type"], "error") << reply.body;
}

TEST_F(Switched, PathsOfOneKindGoToTheRightPlace) {
  start();
  const HttpReply wrong = get("/models/load");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST, OPTIONS");
  const HttpReply count = post("/v1/responses/input_tokens", {{"model", "b"}, {"input", "Hello"}});
  EXPECT_EQ(count.status, 200) << count.body;
  EXPECT_GT(answer_json(count)["input_tokens"], 4);
  EXPECT_EQ(get("/v1/responses/resp_1/input_items").status, 501);
  EXPECT_EQ(get("/v1/responses/resp_1").status, 404);
}

TEST_F(Switched, AClientThatLeavesWhileItWaits) {
  b_.hold = true;
  start();
  {
    HttpClient gone(http_->port());
    gone.send(HttpClient::request("POST", "/v1/completions", R"({"model": "b", "prompt": "x"})"));
    EXPECT_TRUE(soon([&] { return b_.opened == 1; }));
  }
  b_.hold = false;
  EXPECT_TRUE(soon([&] { return state("b") == "loaded"; }));
  EXPECT_TRUE(soon([&] { return answer_json(get("/v1/models/b"))["status"].value("active", 1) == 0; }));
  EXPECT_EQ(complete("b").status, 200);
}

TEST(TopLevelString, FindsTheMemberAndNothingElse) {
  const auto model = [](const char* text) { return serve::top_level_string(text, "model").value_or("-"); };
  EXPECT_EQ(model(R"({"model": "a"})"), "a");
  EXPECT_EQ(model(R"({"x": {"model": "b"}, "y": ["model", "c"], "model" : "a", "z": "\"model\": \"d\""})"), "a");
  EXPECT_EQ(model(R"({"model": "a", "model": "b\u0020c"})"), "b c") << "the last one counts";
  EXPECT_EQ(model(R"({"model": "a", "model": null})"), "-");
  for (const char* none : {"", "{", "{\"model\"", "{\"model\":", "{\"model\": 5}", "{\"model\": \"a", "[\"model\"]", "\"model\"", "{\"models\": \"a\"}", "{\"a\": \"model\"}", "{\"\\"}) EXPECT_EQ(model(none), "-") << none;
}

TEST(JoinedMetrics, EachFamilyAndSeriesOnce) {
  const std::string a = "# HELP x X.\n# TYPE x counter\nx{m=\"a\"} 1\n# TYPE heap gauge\nheap 5\n", b = "# HELP x X.\n# TYPE x counter\nx{m=\"b\"} 2\n# TYPE heap gauge\nheap 6\n";
  EXPECT_EQ(serve::joined_metrics({a, b}), "# HELP x X.\n# TYPE x counter\nx{m=\"a\"} 1\nx{m=\"b\"} 2\n# TYPE heap gauge\nheap 5\n");
}

}  // namespace
}  // namespace isotope::test
