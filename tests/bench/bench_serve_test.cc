#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "bench_serve_client.h"
#include "bench_serve_prompts.h"
#include "bench_serve_report.h"
#include "bench_serve_stream.h"

namespace isotope::app {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// ---- prompts ----------------------------------------------------------------------------------------------------------------

TEST(ServePrompts, AreDistinctOfExactLengthAndShareThePrefix) {
  const auto prompts = make_prompts({.count = 50, .input = 5, .prefix = 3, .seed = 7, .range = {10, 20}});
  ASSERT_TRUE(prompts);
  std::set<std::string> seen;
  for (const auto& p : *prompts) {
    ASSERT_EQ(p.size(), 8u);
    for (const auto& id : p) EXPECT_TRUE(id >= 10 && id < 20) << id;
    EXPECT_EQ(std::vector<int>(p.begin(), p.begin() + 3), std::vector<int>((*prompts)[0].begin(), (*prompts)[0].begin() + 3));
    seen.insert(p.dump());
  }
  EXPECT_EQ(seen.size(), 50u);
}

TEST(ServePrompts, FollowTheSeedAlone) {
  const PromptPlan plan{.count = 3, .input = 4, .prefix = 4, .seed = 1};
  const auto a = make_prompts(plan);
  PromptPlan more = plan, other = plan;
  more.count = 5;
  other.seed = 2;
  EXPECT_EQ(*a, *make_prompts(plan));
  EXPECT_EQ((*a)[2], (*make_prompts(more))[2]);  // a prompt does not depend on how many there are
  const auto b = make_prompts(other);
  for (size_t i = 0; i < 3; ++i) EXPECT_NE((*a)[i], (*b)[i]);
  EXPECT_NE((*a)[0][0], (*b)[0][0]);             // the prefix changes as well
}

TEST(ServePrompts, WordsAreWords) {
  const auto p = make_prompts({.count = 2, .input = 6, .text = true});
  ASSERT_TRUE(p);
  const std::string text = (*p)[0].get<std::string>();
  EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 5);
  EXPECT_NE((*p)[0], (*p)[1]);
}

TEST(ServePrompts, RefuseWhatCannotBe) {
  EXPECT_FALSE(make_prompts({.input = 0}));
  EXPECT_FALSE(make_prompts({.range = {5, 5}}));
  EXPECT_FALSE(make_prompts({.range = {-1, 5}}));
  EXPECT_FALSE(make_prompts({.range = {1}}));
  EXPECT_TRUE(make_prompts({.count = 1, .input = 0, .prefix = 1, .range = {0, 2147483647}}));
}

// ---- stream -----------------------------------------------------------------------------------------------------------------

std::vector<std::string> split(std::string_view bytes, size_t piece) {
  EventSplitter s;
  std::vector<std::string> out;
  for (size_t i = 0; i < bytes.size(); i += piece) s.feed(bytes.substr(i, piece), [&](std::string_view d) { out.emplace_back(d); });
  return out;
}

TEST(ServeStream, EventsComeWholeHoweverTheyAreCut) {
  const std::string_view stream = ": hello\r\n\r\ndata: {\"a\":1}\r\n\r\nevent: x\ndata:{\"b\":2}\nid: 4\n\ndata: one\ndata: two\n\n\n\ndata: [DONE]\n\ndata: cut off\n";
  for (size_t piece : {1, 2, 3, 7, 1000}) EXPECT_THAT(split(stream, piece), ElementsAre("{\"a\":1}", "{\"b\":2}", "one\ntwo", "[DONE]")) << piece;
}

TEST(ServeStream, PendingGrowsOnlyWithinAnEvent) {
  EventSplitter s;
  s.feed("data: " + std::string(1000, 'x'), [](std::string_view) {});
  EXPECT_GE(s.pending(), 1000u);
  s.feed("\n\n", [](std::string_view) {});
  EXPECT_EQ(s.pending(), 0u);
}

TEST(ServeStream, ChunksOfSeveralServers) {
  EXPECT_TRUE(read_chunk("[DONE]").done);
  const Chunk a = read_chunk(R"({"choices":[{"index":0,"text":" the","finish_reason":null}],"usage":null})");
  EXPECT_TRUE(a.choice && !a.finished && a.error.empty() && a.text == " the");
  const Chunk b = read_chunk(R"({"choices":[{"text":"","finish_reason":"length"}],"timings":{"predicted_n":64}})");
  EXPECT_TRUE(b.finished && b.choice);
  EXPECT_EQ(b.completion_tokens, 64);
  const Chunk c = read_chunk(R"({"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}})");
  EXPECT_FALSE(c.choice);
  EXPECT_EQ(c.prompt_tokens, 5);
  EXPECT_EQ(c.completion_tokens, 7);
}

TEST(ServeStream, ErrorsAreToldAndNothingCrashes) {
  EXPECT_EQ(read_chunk(R"({"error":{"message":"queue full","code":429}})").error, "queue full");
  EXPECT_EQ(read_chunk(R"({"error":"queue full"})").error, "queue full");
  for (const char* bad : {"", "{", "[]", "7", "\"x\"", "\xff\xfe", "{\"choices\":"}) EXPECT_FALSE(read_chunk(bad).error.empty()) << bad;
  for (const char* odd : {R"({"choices":7})", R"({"choices":[7]})", R"({"choices":[{"text":4,"finish_reason":5}]})", R"({"choices":[],"usage":{"prompt_tokens":"x"}})", "{}"})
    EXPECT_TRUE(read_chunk(odd).error.empty()) << odd;
  EXPECT_EQ(error_message(R"({"detail":"Not Found"})"), "Not Found");
  EXPECT_EQ(error_message("<html>no</html>"), "<html>no</html>");
}

// ---- report -----------------------------------------------------------------------------------------------------------------

ServeRun example() {
  ServeRun run{.backend = "openai", .model = "m", .time = "20240102-030405", .concurrency = 2, .asked_output = 3, .duration = 2};
  run.records.resize(4);
  run.records[0] = {.sent = true, .input = 10, .output = 3, .start = 0, .ttft = 0.1, .latency = 0.5, .itl = {0.2, 0.2}, .text = "abc"};
  run.records[1] = {.sent = true, .input = 10, .output = 2, .start = 0, .ttft = 0.3, .latency = 0.4, .itl = {0.1}, .text = "de"};
  run.records[2] = {.sent = true, .error = "HTTP 500: no", .input = 10, .output = 1, .ttft = 9};
  return run;
}

TEST(ServeReport, HasTheKeysOfVllm) {
  const auto j = serve_json(example(), false);
  EXPECT_EQ(j["completed"], 2);
  EXPECT_EQ(j["failed"], 1);
  EXPECT_EQ(j["num_prompts"], 4);
  EXPECT_EQ(j["total_input_tokens"], 20);
  EXPECT_EQ(j["total_output_tokens"], 5);
  EXPECT_DOUBLE_EQ(j["output_throughput"], 2.5);
  EXPECT_DOUBLE_EQ(j["request_throughput"], 1);
  EXPECT_DOUBLE_EQ(j["total_token_throughput"], 12.5);
  EXPECT_DOUBLE_EQ(j["mean_ttft_ms"], 200);
  EXPECT_DOUBLE_EQ(j["median_tpot_ms"], 150);   // 200 and 100
  EXPECT_NEAR(j["mean_itl_ms"].get<double>(), 500.0 / 3, 1e-9);
  EXPECT_DOUBLE_EQ(j["std_e2el_ms"], 50);
  EXPECT_NEAR(j["p99_e2el_ms"].get<double>(), 499, 1e-9);
  EXPECT_FALSE(j.contains("ttfts"));
  const auto detailed = serve_json(example(), true);
  EXPECT_EQ(detailed["output_lens"], (std::vector<int>{3, 2, 1, 0}));
  EXPECT_EQ(detailed["errors"][2], "HTTP 500: no");
}

TEST(ServeReport, EmptyRunsDivideByNothing) {
  const auto j = serve_json({}, true);
  EXPECT_EQ(j["output_throughput"], 0);
  EXPECT_EQ(j["mean_ttft_ms"], 0);
  EXPECT_THAT(serve_table({}), HasSubstr("completed"));
}

TEST(ServeReport, WarnsAboutWhatDoesNotCount) {
  ServeRun run = example();
  EXPECT_THAT(serve_warnings(run), ElementsAre("1 requests failed: HTTP 500: no", "1 answers do not have the 3 tokens that were asked for"));
  run.interrupted = true;
  EXPECT_THAT(serve_warnings(run)[0], HasSubstr("1 requests were not sent"));
}

TEST(ServeReport, PercentilesInterpolate) {
  EXPECT_EQ(percentile({}, 50), 0);
  EXPECT_EQ(percentile({4}, 99), 4);
  EXPECT_DOUBLE_EQ(percentile({3, 1, 2, 4}, 50), 2.5);
  EXPECT_DOUBLE_EQ(percentile({1, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(percentile({1, 2}, 100), 2);
  EXPECT_DOUBLE_EQ(percentile({0, 10}, 90), 9);
}

// ---- addresses --------------------------------------------------------------------------------------------------------------

TEST(ServeTarget, Addresses) {
  struct Case { const char* url; const char* back; } cases[] = {{"http://localhost:8000", "http://localhost:8000"}, {"localhost:8000/", "http://localhost:8000"},
      {"http://[::1]:9/x/y/", "http://[::1]:9/x/y"}, {"example.org", "http://example.org:80"}, {"http://h:65535/v", "http://h:65535/v"}};
  for (const auto& c : cases) {
    const auto t = parse_target(c.url);
    ASSERT_TRUE(t) << c.url;
    EXPECT_EQ(t->url(), c.back);
  }
  for (const char* bad : {"", "https://h:1", "http://", "h:0", "h:65536", "h:x", "h:", "[::1", "http://h:1/a b", "http://h:1/\r\nX: y", "h:99999999999999999999"})
    EXPECT_FALSE(parse_target(bad)) << bad;
}

// ---- client, without a server -----------------------------------------------------------------------------------------------

TEST(ServeClient, ARefusedConnectionIsAnErrorOfEachRequest) {
  LoadOptions o;
  o.target = *parse_target("127.0.0.1:1");
  o.concurrency = 2;
  size_t told = 0;
  const LoadResult r = run_load(o, {"{}", "{}", "{}"}, [&](const Progress& p) { told = p.ended; });
  ASSERT_EQ(r.records.size(), 3u);
  for (const auto& record : r.records) EXPECT_THAT(record.error, HasSubstr("cannot connect"));
  EXPECT_EQ(told, 3u);
  EXPECT_FALSE(http_get(o, "/health", 2));
  EXPECT_TRUE(run_load(o, {}, [](const Progress&) {}).records.empty());
}

}  // namespace
}  // namespace isotope::app
