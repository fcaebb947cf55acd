// For any request the streamed answer joins to the unstreamed one, and log-probability entries join to the text.
#include <gtest/gtest.h>

#include <random>

#include "joined.h"
#include "test_server.h"

namespace isotope::test {
namespace {

using serve::Json;

Json random_request(std::mt19937& rng, bool chat) {
  const auto pick = [&](int n) { return int(rng() % unsigned(n)); };
  Json r = {{"max_tokens", pick(60)}, {"seed", pick(1000)}, {"n", 1 + pick(3)}, {"return_token_ids", true}};
  std::string prompt = "p" + std::to_string(pick(1000)) + (pick(2) != 0 ? "é€" : "");
  if (pick(3) == 0) prompt += "«say:stop é here and €uro»";
  if (chat) {
    r["messages"] = Json::array({{{"role", "user"}, {"content", prompt}}});
    if (pick(2) != 0) r["logprobs"] = true, r["top_logprobs"] = pick(3);
  } else {
    r["prompt"] = prompt;
    if (pick(2) != 0) r["logprobs"] = pick(3);
    if (pick(3) == 0) r["echo"] = true;
  }
  static const std::vector<Json> kStops = {"a", "€", Json::array({"th", " e", "zz"}), "é h", Json::array({"b", "bc", "abc"}), "tion"};
  if (pick(2) != 0) r["stop"] = kStops[size_t(pick(int(kStops.size())))];
  if (pick(4) == 0) r["include_stop_str_in_output"] = true;
  if (pick(4) == 0) r["min_tokens"] = std::min(5, r["max_tokens"].get<int>());
  if (pick(5) == 0) r["stop_token_ids"] = Json::array({int('e')});
  return r;
}

TEST(Property, StreamedEqualsWhole) {
  TestServer s;
  std::mt19937 rng(11);
  for (int i = 0; i < 300 && !testing::Test::HasFailure(); ++i) expect_streamed_equals_whole(s.port(), random_request(rng, i % 2 != 0), i % 2 != 0);
}

// GIVE row X16.
TEST(Property, ChoicesDifferRepeatAndChoiceZeroIsTheSingleRun) {
  TestServer s;
  const Json request = {{"prompt", "abc"}, {"n", 3}, {"seed", 7}, {"temperature", 1}, {"max_tokens", 12}};
  const auto a = ask(s.port(), request, false, false), b = ask(s.port(), request, false, false);
  EXPECT_NE(a[0].text, a[1].text);
  EXPECT_NE(a[1].text, a[2].text);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(a[i].text, b[i].text);
  Json single = request;
  single["n"] = 1;
  EXPECT_EQ(ask(s.port(), single, false, false)[0].text, a[0].text);
}

}  // namespace
}  // namespace isotope::test
