#include <algorithm>

#include "serve/anthropic.h"

namespace isotope::serve {
namespace {

struct StatusType {
  int status;
  const char* type;
};
constexpr StatusType kTypes[] = {{400, "invalid_request_error"}, {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
                                 {413, "request_too_large"},     {429, "rate_limit_error"},     {503, "overloaded_error"}};

const char* stop_reason(const Delta& d) {
  const Choice& c = *d.finished;
  if (c.finish() == FinishReason::length) return "max_tokens";   // there may be more calls to come
  if (d.called) return "tool_use";
  return c.stop_text() != nullptr || c.stop_token_asked() ? "stop_sequence" : "end_turn";
}

Json stop_sequence(const Choice& c) { return c.stop_text() != nullptr ? Json(*c.stop_text()) : Json(); }

Json usage(const Job& job) {
  const Usage u = job.usage();
  return {{"input_tokens", u.prompt_tokens - u.cached_tokens}, {"cache_creation_input_tokens", 0}, {"cache_read_input_tokens", u.cached_tokens}, {"output_tokens", u.completion_tokens}};
}

class MessagesWriter final : public AnswerWriter {
 public:
  explicit MessagesWriter(const Call& call) : call_(call) {}

  void part(const Delta& d, const Job& job, std::string& out) override {
    begin(job, out);
    if (!d.reasoning.empty()) {
      open(Kind::thinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, out);
      delta({{"type", "thinking_delta"}, {"thinking", d.reasoning}}, out);
    }
    if (!d.text.empty()) {
      open(Kind::text, {{"type", "text"}, {"text", ""}}, out);
      delta({{"type", "text_delta"}, {"text", d.text}}, out);
    }
    for (const Json& call : d.tool_calls) tool(call, out);
    if (d.finished != nullptr) {
      reason_ = stop_reason(d);
      sequence_ = stop_sequence(*d.finished);
    }
  }

  void end(const Job& job, std::string& out) override {
    if (job.error()) {
      out += named_event("error", error(*job.error()));
      return;
    }
    begin(job, out);
    if (index_ < 0) open(Kind::text, {{"type", "text"}, {"text", ""}}, out);   // clients expect a block
    close(out);
    out += named_event("message_delta", {{"type", "message_delta"}, {"delta", {{"stop_reason", reason_}, {"stop_sequence", sequence_}}}, {"usage", usage(job)}});
    out += named_event("message_stop", {{"type", "message_stop"}});
  }

  Json whole(const Delta& d, const Job& job) override {
    Json content = Json::array();
    if (!d.reasoning.empty()) content.push_back({{"type", "thinking"}, {"thinking", d.reasoning}, {"signature", ""}});
    if (!d.text.empty() || (d.reasoning.empty() && d.tool_calls.empty())) content.push_back({{"type", "text"}, {"text", d.text}});
    for (const Json& call : d.tool_calls) {
      Json input = Json::parse(call["function"]["arguments"].get_ref<const std::string&>(), nullptr, false);
      content.push_back({{"type", "tool_use"}, {"id", call["id"]}, {"name", call["function"]["name"]}, {"input", input.is_discarded() ? Json::object() : std::move(input)}});
    }
    return message(std::move(content), Json(d.finished != nullptr ? Json(stop_reason(d)) : Json()), d.finished != nullptr ? stop_sequence(*d.finished) : Json(), job);
  }

  Json error(const ApiError& e) override { return messages_error(http_status(e), e.error.message()); }

 private:
  enum class Kind { none, thinking, text, tool };

  Json message(Json content, Json reason, Json sequence, const Job& job) const {
    return {{"id", call_.id}, {"type", "message"}, {"role", "assistant"}, {"model", call_.model}, {"content", std::move(content)}, {"stop_reason", std::move(reason)},
            {"stop_sequence", std::move(sequence)}, {"usage", usage(job)}};
  }

  void begin(const Job& job, std::string& out) {
    if (std::exchange(begun_, true)) return;
    out += named_event("message_start", {{"type", "message_start"}, {"message", message(Json::array(), nullptr, nullptr, job)}});
    out += named_event("ping", {{"type", "ping"}});
  }

  void open(Kind kind, Json block, std::string& out) {
    if (kind_ == kind && kind != Kind::tool) return;
    close(out);
    kind_ = kind;
    out += named_event("content_block_start", {{"type", "content_block_start"}, {"index", ++index_}, {"content_block", std::move(block)}});
  }

  void close(std::string& out) {
    if (kind_ == Kind::none) return;
    if (kind_ == Kind::thinking) delta({{"type", "signature_delta"}, {"signature", ""}}, out);
    kind_ = Kind::none;
    out += named_event("content_block_stop", {{"type", "content_block_stop"}, {"index", index_}});
  }

  void delta(Json change, std::string& out) { out += named_event("content_block_delta", {{"type", "content_block_delta"}, {"index", index_}, {"delta", std::move(change)}}); }

  // First identifier and name, then the arguments.
  void tool(const Json& call, std::string& out) {
    if (call.contains("id")) {
      open(Kind::tool, {{"type", "tool_use"}, {"id", call["id"]}, {"name", call["function"]["name"]}, {"input", Json::object()}}, out);
    } else {
      delta({{"type", "input_json_delta"}, {"partial_json", call["function"]["arguments"]}}, out);
    }
  }

  const Call& call_;
  bool begun_ = false;
  int index_ = -1;
  Kind kind_ = Kind::none;
  const char* reason_ = "end_turn";
  Json sequence_;
};

}  // namespace

std::unique_ptr<AnswerWriter> messages_writer(const Call& call, const Frontend&) { return std::make_unique<MessagesWriter>(call); }

Json messages_error(int status, const std::string& message) {
  const char* type = status < 500 ? "invalid_request_error" : "api_error";
  for (const StatusType& row : kTypes) {
    if (row.status == status) type = row.type;
  }
  return {{"type", "error"}, {"error", {{"type", type}, {"message", message}}}};
}

}  // namespace isotope::serve
