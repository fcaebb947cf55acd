// Contract 1 with constraints: answers that must keep to a schema, an expression, a choice or a grammar, free ones, seeded and penalised ones give the
// same tokens and log-probabilities, bit for bit, alone and together, preempted, cut into chunks, and whatever engine of several has them.
#include <gtest/gtest.h>

#include <thread>

#include "case_file.h"
#include "joined.h"
#include "test_server.h"

namespace isotope::test {
namespace {

using serve::dump;
using serve::Json;

/// Prompts of different lengths, two of them with a common beginning; no answer is longer than 24 tokens.
std::vector<Json> requests() {
  const Json person = Json::parse(R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
                                     "required": ["name", "age"], "additionalProperties": false})");
  const std::string story = "Once upon a time there was a king who had three daughters, and each of them wanted to see the sea. The eldest said that";
  std::vector<Json> all = {
      {{"prompt", "A person as JSON: "}, {"temperature", 1.5}, {"seed", 1}, {"structured_outputs", {{"json", person}}}},
      {{"prompt", "A person as JSON: "}, {"temperature", 0}, {"structured_outputs", {{"json", person}}}},
      {{"prompt", story}, {"temperature", 1}, {"seed", 2}},
      {{"prompt", story + " she"}, {"temperature", 0}},
      {{"prompt", "A date: "}, {"temperature", 1.2}, {"seed", 3}, {"structured_outputs", {{"regex", "[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]"}}}},
      {{"prompt", story}, {"temperature", 1}, {"seed", 4}, {"repetition_penalty", 1.3}, {"structured_outputs", {{"choice", {"yes, she did", "no, she did not", "nobody knows"}}}}},
      {{"prompt", "List: "}, {"temperature", 1.4}, {"seed", 5}, {"frequency_penalty", 0.7}, {"presence_penalty", 0.4}, {"structured_outputs", {{"grammar", "root ::= item (\", \" item)*\nitem ::= [a-z]+"}}}},
      {{"prompt", "One, two, one, two,"}, {"temperature", 0.9}, {"seed", 6}, {"repetition_penalty", 1.2}, {"frequency_penalty", 0.3}, {"top_k", 40}, {"top_p", 0.95}, {"min_p", 0.01}},
      {{"prompt", "Anything as JSON: "}, {"temperature", 1.3}, {"seed", 7}, {"logit_bias", {{"504", 3}}}, {"response_format", {{"type", "json_object"}}}},
  };
  for (Json& r : all) r.update({{"max_tokens", 24}, {"logprobs", 2}, {"return_token_ids", true}});
  return all;
}

/// What must not differ: the tokens, their scores as text with every digit, and how it ended.
std::string essence(const HttpReply& reply) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  const Json answer = answer_json(reply), &choice = answer["choices"][0];
  return dump({choice["token_ids"], choice["logprobs"], choice["text"], choice["finish_reason"]});
}

std::vector<std::string> alone(int port) {
  std::vector<std::string> out;
  for (const Json& r : requests()) out.push_back(essence(HttpClient::fetch(port, "POST", "/v1/completions", dump(r))));
  return out;
}

std::vector<std::string> together(int port) {
  const auto all = requests();
  std::vector<std::string> out(all.size());
  std::vector<std::thread> clients;
  for (size_t i = 0; i < all.size(); ++i)
    clients.emplace_back([&, i] { out[i] = essence(HttpClient::fetch(port, "POST", "/v1/completions", dump(all[i]))); });
  for (std::thread& c : clients) c.join();
  return out;
}

struct Way {
  const char* name;
  EngineOptions options;
};

TEST(Constrained, TheSameBitsAloneTogetherPreemptedChunkedAndOnSeveralEngines) {
  const EngineOptions plain{.max_model_len = 512, .kv_bytes = 64 << 20};
  const auto server = ModelServer::open("smollm2-135m", plain);
  if (!server) GTEST_SKIP() << "run scripts/fetch-model smollm2-135m";
  const auto want = alone(server->port());
  EXPECT_EQ(together(server->port()), want) << "together";
  const auto with = [&](auto change) {
    EngineOptions o = plain;
    change(o);
    return o;
  };
  const Way ways[] = {
      {"preempted every 3 steps, chunks of 5", with([](EngineOptions& o) { o.preempt_every = 3, o.long_prefill_token_threshold = 5; })},
      {"a budget of 7 tokens a step", with([](EngineOptions& o) { o.max_num_batched_tokens = 7, o.max_num_seqs = 7; })},
      {"without the prefix cache", with([](EngineOptions& o) { o.prefix_caching = false; })},
      {"two engines", with([](EngineOptions& o) { o.data_parallel_size = 2; })},
      {"two engines, preempted", with([](EngineOptions& o) { o.data_parallel_size = 2, o.preempt_every = 2; })},
  };
  for (const Way& way : ways) {
    const auto other = ModelServer::open("smollm2-135m", way.options);
    const auto got = together(other->port());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i], want[i]) << way.name << ", request " << i;
    if (way.options.preempt_every > 0) EXPECT_GT(other->engine().stats().preemptions, 0) << way.name;
  }
}

}  // namespace
}  // namespace isotope::test
