#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "bench_serve_client.h"
#include "bench_serve_dataset.h"
#include "bench_serve_plot.h"
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

TEST(ServePrompts, BeginningsAreTakenInTurn) {
  const auto p = *make_prompts({.count = 6, .input = 2, .prefix = 3, .prefixes = 3});
  const auto beginning = [&](size_t i) { return std::vector<int>(p[i].begin(), p[i].begin() + 3); };
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(beginning(i), beginning(i + 3));
  EXPECT_NE(beginning(0), beginning(1));
  EXPECT_EQ((*make_prompts({.count = 1, .first = 4, .input = 2, .prefix = 3, .prefixes = 3}))[0], p[4]);
}

// ---- datasets ---------------------------------------------------------------------------------------------------------------

/// A file of the test's own, gone with it.
struct File {
  std::filesystem::path path = std::filesystem::path(testing::TempDir()) / ("bench_dataset_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
  explicit File(const std::string& text) { std::ofstream(path) << text; }
  ~File() { std::filesystem::remove(path); }
};

DatasetPlan from(const File& file, const char* kind) { return {.kind = kind, .path = file.path, .all = true}; }

TEST(ServeDataset, LengthsVaryWithinTheRatioAndFollowTheSeed) {
  DatasetPlan d{.prompts = {.count = 200, .input = 100, .prefix = 7, .seed = 3}, .output = 50, .range_ratio = 0.5};
  const auto a = *load_requests(d);
  std::set<int64_t> inputs;
  for (const auto& r : a) {
    EXPECT_EQ(int64_t(r.prompt.size()), r.input);
    EXPECT_TRUE(r.input >= 57 && r.input <= 157 && r.output >= 25 && r.output <= 75) << r.input << " " << r.output;
    inputs.insert(r.input);
  }
  EXPECT_GT(inputs.size(), 40u);
  d.prompts.count = 20;
  EXPECT_EQ((*load_requests(d))[19].prompt, a[19].prompt);
}

TEST(ServeDataset, ConversationsGiveTheirFirstQuestion) {
  const File file(R"([{"id":"a","conversations":[{"from":"human","value":"Why?"},{"from":"gpt","value":"Because the sky is blue, always."}]},
                      {"conversations":[]}, {"conversations":[{"from":"human","value":"alone"}]}, 7,
                      {"conversations":[{"from":"human","value":"How?"},{"from":"gpt","value":"So."}]}])");
  const auto rows = *load_requests(from(file, "sharegpt"));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].prompt, "Why?");
  EXPECT_EQ(rows[0].output, 8);
  EXPECT_EQ(rows[1].output, 4);
  DatasetPlan many = from(file, "sharegpt");
  many.all = false, many.prompts.count = 5, many.output = 9, many.output_given = true;
  const auto again = *load_requests(many);
  ASSERT_EQ(again.size(), 5u);
  EXPECT_EQ(again[4].prompt, "Why?");
  EXPECT_EQ(again[1].output, 9);
}

TEST(ServeDataset, TracesHaveTimesAndShareWhatTheirHashesShare) {
  const File file("{\"timestamp\": 3000, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [1, 2]}\n\n"
                  "{\"timestamp\": 1000, \"input_length\": 700, \"output_length\": 6, \"hash_ids\": [1, 3]}\n"
                  "{\"timestamp\": 2500, \"prompt\": \"hello\", \"max_tokens\": 7}\n"
                  "{\"timestamp\": 2500, \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n");
  const auto rows = *load_requests(from(file, "jsonl"));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ((std::vector<double>{rows[0].at_s, rows[1].at_s, rows[2].at_s, rows[3].at_s}), (std::vector<double>{0, 1.5, 1.5, 2}));
  EXPECT_EQ((std::vector<int64_t>{rows[0].output, rows[1].output, rows[2].output, rows[3].output}), (std::vector<int64_t>{6, 7, 64, 5}));
  EXPECT_EQ(rows[0].input, 700);
  EXPECT_EQ(std::vector<int>(rows[0].prompt.begin(), rows[0].prompt.begin() + 512), std::vector<int>(rows[3].prompt.begin(), rows[3].prompt.begin() + 512));
  EXPECT_NE(rows[0].prompt[513], rows[3].prompt[513]);
}

TEST(ServeDataset, BadFilesAreRefusedByLine) {
  struct Case { const char* kind; const char* text; const char* why; } cases[] = {
      {"jsonl", "", "empty"}, {"jsonl", "\n\n", "no line"}, {"jsonl", "{\"prompt\": \"x\"}\n{oops\n", ":2 is no JSON object"}, {"jsonl", "[]\n", ":1 is no JSON object"},
      {"jsonl", "{}\n", "neither 'prompt'"}, {"jsonl", "{\"prompt\": \"x\", \"timestamp\": -1}", "'timestamp'"}, {"jsonl", "{\"prompt\": \"x\", \"max_tokens\": 0}", "'max_tokens'"},
      {"jsonl", "{\"input_length\": 1e99}", "'input_length'"}, {"jsonl", "{\"input_length\": 9, \"hash_ids\": [\"x\"]}", "'hash_ids'"},
      {"sharegpt", "{}", "no JSON array"}, {"sharegpt", "[]", "no conversation"}, {"sharegpt", "[[], {\"conversations\": 4}]", "no conversation"}};
  for (const auto& c : cases) {
    const File file(c.text);
    const auto r = load_requests(from(file, c.kind));
    ASSERT_FALSE(r) << c.text;
    EXPECT_THAT(r.error().message(), HasSubstr(c.why)) << c.text;
  }
  EXPECT_FALSE(load_requests({.kind = "jsonl"}));
  EXPECT_FALSE(load_requests({.kind = "sharegpt", .path = "/nowhere/at/all"}));
}

TEST(ServeArrivals, HaveTheirRateAndShape) {
  for (const double burstiness : {0.25, 1.0, 4.0}) {
    const auto at = arrivals(4000, 8, burstiness, 1);
    ASSERT_EQ(at.size(), 4000u);
    EXPECT_TRUE(std::is_sorted(at.begin(), at.end()));
    EXPECT_NEAR(at.back(), 500, 1e-6);
    double squares = 0;
    for (size_t i = 1; i < at.size(); ++i) squares += std::pow((at[i] - at[i - 1]) * 8 - 1, 2);
    EXPECT_NEAR(squares / 4000 * burstiness, 1, 0.15) << burstiness;  // the variance of a gamma gap with mean 1 is 1 / shape
  }
  EXPECT_EQ(arrivals(10, 2, 1, 5), arrivals(10, 2, 1, 5));
  EXPECT_NE(arrivals(10, 2, 1, 5), arrivals(10, 2, 1, 6));
  EXPECT_TRUE(arrivals(0, 2, 1, 5).empty());
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

TEST(ServeStream, ChatsCountWhatIsGeneratedOnly) {
  EXPECT_FALSE(read_chunk(R"({"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]})").choice);
  const Chunk text = read_chunk(R"({"system_fingerprint":"fp_1","choices":[{"delta":{"content":"hi"},"finish_reason":null}]})");
  EXPECT_TRUE(text.choice && text.text == "hi" && text.fingerprint == "fp_1");
  EXPECT_EQ(read_chunk(R"({"choices":[{"delta":{"reasoning":"hm","reasoning_content":"hm"}}]})").text, "hm");
  EXPECT_TRUE(read_chunk(R"({"choices":[{"delta":{"role":"assistant","tool_calls":[{"index":0}]}}]})").choice);
  EXPECT_TRUE(read_chunk(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})").finished);
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

TEST(ServeReport, GoodputCountsAnswersWithinEveryLimit) {
  ServeRun run = example();
  EXPECT_TRUE(serve_json(run, false)["request_goodput"].is_null());
  struct Case { std::vector<Objective> limits; double goodput; } cases[] = {
      {{{"ttft", 150}}, 0.5}, {{{"ttft", 300}}, 1}, {{{"ttft", 300}, {"tpot", 150}}, 0.5}, {{{"e2el", 500}}, 1}, {{{"e2el", 399}}, 0}, {{{"ttft", 100}, {"tpot", 100}}, 0}};
  for (const auto& c : cases) {
    run.objectives = c.limits;
    EXPECT_DOUBLE_EQ(serve_json(run, false)["request_goodput"], c.goodput);
  }
  EXPECT_THAT(serve_table(run), HasSubstr("good requests a second"));
  for (const char* bad : {"", "ttft", "ttft:", "ttft:x", "itl:3", "ttft:-1", "ttft:nan", "ttft:3s"}) EXPECT_FALSE(parse_objective(bad)) << bad;
  EXPECT_EQ(parse_objective("tpot:12.5")->ms, 12.5);
}

TEST(ServeReport, TellsWhatIsAskedFor) {
  ServeRun run = example();
  run.percentiles = {50, 99.9};
  run.metrics = {"ttft"};
  run.rate = 4;
  run.label = "night";
  run.metadata = {{"node", "a"}};
  run.fingerprint = "fp_1";
  const auto j = serve_json(run, false);
  EXPECT_DOUBLE_EQ(j["p50_ttft_ms"], 200);
  EXPECT_NEAR(j["p99.9_ttft_ms"].get<double>(), 299.8, 1e-6);
  EXPECT_FALSE(j.contains("p99_ttft_ms") || j.contains("mean_tpot_ms"));
  EXPECT_EQ(j["request_rate"], 4);
  EXPECT_EQ(serve_json(example(), false)["request_rate"], "inf");
  EXPECT_EQ(j["label"], "night");
  EXPECT_EQ(j["node"], "a");
  EXPECT_EQ(j["system_fingerprint"], "fp_1");
  EXPECT_EQ(j["max_concurrent_requests"], 2);
  EXPECT_EQ(j["max_output_tokens_per_s"], 5);
  EXPECT_THAT(serve_table(run), testing::Not(HasSubstr("tpot")));
}

TEST(ServeReport, RecordsForPytorchsDatabase) {
  const auto records = pytorch_records(example());
  ASSERT_EQ(records.size(), 12u);
  std::set<std::string> names;
  for (const auto& r : records) {
    names.insert(r["metric"]["name"].get<std::string>());
    EXPECT_EQ(r["model"]["name"], "m");
    EXPECT_EQ(r["metric"]["benchmark_values"].size(), 1u);
    EXPECT_TRUE(r["benchmark"]["extra_info"].contains("args"));
  }
  EXPECT_EQ(names.size(), 12u);
  EXPECT_EQ(records[0]["metric"]["benchmark_values"][0], 200);
}

TEST(ServeReport, ThePictureHoldsEveryAnswer) {
  ServeRun run = example();
  run.model = "<m> & \"n\"";
  const std::string svg = serve_svg(run);
  const auto count = [&](const std::string& word) {
    size_t n = 0;
    for (size_t at = 0; (at = svg.find(word, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(count("fill=\"#9ecae1\""), 2u);
  EXPECT_EQ(count("fill=\"#3182bd\""), 2u);
  EXPECT_EQ(count("fill=\"#de2d26\""), 1u);
  EXPECT_EQ(count("<polyline"), 2u);
  EXPECT_THAT(svg, HasSubstr("&lt;m&gt; &amp;"));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(serve_svg({}).find("nan"), std::string::npos);
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
