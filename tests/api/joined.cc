#include "joined.h"

#include <gtest/gtest.h>

#include "case_file.h"
#include "serve/answer_format.h"

namespace isotope::test {

using serve::dump;
using serve::Json;

namespace {

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

}  // namespace

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

void expect_streamed_equals_whole(int port, const Json& request, bool chat) {
  SCOPED_TRACE(dump(request));
  const auto whole = ask(port, request, chat, false), streamed = ask(port, request, chat, true);
  for (size_t i = 0; i < request.value("n", size_t{1}); ++i) {
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

}  // namespace isotope::test
