// For any request the streamed answer joins to the unstreamed one, and log-probability entries join to the text.
#include <gtest/gtest.h>

#include <random>

#include "case_file.h"
#include "serve/answer_format.h"
#include "test_server.h"

namespace isotope::test {
namespace {

using serve::dump;
using serve::Json;

struct Joined {
  std::string text, finish;
  Json stop_reason, tokens = Json::array(), offsets = Json::array(), logprobs = Json::array(), ids = Json::array();
};

void append(Json& to, const Json* from) {
  if (from == nullptr || !from->is_array()) return;
  for (const Json& v : *from) to.push_back(v);
}

void take(Joined& out, const Json& choice, const char* text_path, bool chat) {
  if (const Json* t = at_path(choice, text_path); t != nullptr && t->is_string()) out.text += t->get<std::string>();
  if (const Json* f = at_path(choice, "finish_reason"); f != nullptr && f->is_string()) {
    out.finish += f->get<std::string>();
    out.stop_reason = choice["stop_reason"];
  }
  append(out.ids, at_path(choice, "token_ids"));
  if (!chat) {
    append(out.tokens, at_path(choice, "logprobs.tokens"));
    append(out.offsets, at_path(choice, "logprobs.text_offset"));
    append(out.logprobs, at_path(choice, "logprobs.token_logprobs"));
  } else if (const Json* content = at_path(choice, "logprobs.content"); content != nullptr) {
    for (const Json& e : *content) {
      out.tokens.push_back(e["token"]);
      out.logprobs.push_back(e["logprob"]);
    }
  }
}

std::vector<Joined> ask(int port, Json request, bool chat, bool stream) {
  request["stream"] = stream;
  const HttpReply reply = HttpClient::fetch(port, "POST", chat ? "/v1/chat/completions" : "/v1/completions", dump(request));
  EXPECT_EQ(reply.status, 200) << reply.body;
  const Json answer = answer_json(reply);
  std::vector<Joined> out(4);
  const Json events = stream ? answer["events"] : Json::array({answer});
  for (const Json& e : events) {
    for (const Json& choice : e["choices"]) {
      take(out[choice["index"].get<size_t>()], choice, !chat ? "text" : stream ? "delta.content" : "message.content", chat);
    }
  }
  return out;
}

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

void check_request(TestServer& s, const Json& request, bool chat) {
  SCOPED_TRACE(dump(request));
  const auto whole = ask(s.port(), request, chat, false), streamed = ask(s.port(), request, chat, true);
  for (size_t i = 0; i < request["n"].get<size_t>(); ++i) {
    const Joined& w = whole[i];
    EXPECT_EQ(w.text, streamed[i].text);
    EXPECT_EQ(w.finish, streamed[i].finish);
    EXPECT_EQ(w.stop_reason, streamed[i].stop_reason);
    EXPECT_EQ(w.ids, streamed[i].ids);
    EXPECT_EQ(w.tokens, streamed[i].tokens);
    EXPECT_EQ(w.offsets, streamed[i].offsets);
    EXPECT_EQ(w.logprobs, streamed[i].logprobs);
    if (!request.contains("logprobs")) continue;
    std::string joined;
    for (size_t t = 0; t < w.tokens.size(); ++t) {
      if (!chat) EXPECT_EQ(w.offsets[t].get<int64_t>(), serve::code_points(joined));
      joined += w.tokens[t].get<std::string>();
    }
    EXPECT_EQ(joined, w.text);
  }
}

TEST(Property, StreamedEqualsWhole) {
  TestServer s;
  std::mt19937 rng(11);
  for (int i = 0; i < 300 && !testing::Test::HasFailure(); ++i) check_request(s, random_request(rng, i % 2 != 0), i % 2 != 0);
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
