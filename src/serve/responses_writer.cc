#include <utility>

#include "serve/responses.h"

namespace isotope::serve {
namespace {

Json text_part(const std::string& text, Json logprobs = Json::array()) {
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", std::move(logprobs)}};
}

class ResponsesWriter final : public AnswerWriter {
 public:
  ResponsesWriter(const ResponsesRequest& request, const Call& call, const Frontend& front, ResponseStore& store)
      : call_(call), front_(front), store_(store), echoed_(request.echoed), messages_(request.chat.at("messages")), keep_(request.store) {
    const SamplingParams& p = call.spec.sampling;
    if (echoed_["temperature"].is_null()) echoed_["temperature"] = p.temperature;
    if (echoed_["top_p"].is_null()) echoed_["top_p"] = p.top_p;
    if (!echoed_["instructions"].is_null()) messages_.erase(messages_.begin());
  }

  void part(const Delta& d, const Job&, std::string& out) override {
    begin(out);
    take(d, &out);
  }

  void end(const Job& job, std::string& out) override {
    begin(out);
    close(&out, cut_);
    const Json response = finished(job);
    const std::string name = "response." + response["status"].get<std::string>();
    emit(name.c_str(), {{"response", response}}, &out);
  }

  Json whole(const Delta& d, const Job& job) override {
    // A whole answer's calls come in one piece; as parts they come as in a stream.
    Delta text{.reasoning = d.reasoning};
    take(text, nullptr);
    text.reasoning.clear();
    text.text = d.text;
    text.entries = d.entries;
    take(text, nullptr);
    for (const Json& call : d.tool_calls) {
      text = {};
      text.tool_calls = Json::array({call});
      take(text, nullptr);
    }
    text = {};
    text.finished = d.finished;
    take(text, nullptr);
    close(nullptr, cut_);
    return finished(job);
  }

  Json error(const ApiError& e) override { return error_body(e); }

 private:
  enum class Kind { none, reasoning, message, call };

  Json response(const char* status) const {
    Json out = {{"id", call_.id}, {"object", "response"}, {"created_at", call_.created}, {"status", status}, {"error", nullptr}, {"incomplete_details", nullptr}, {"model", call_.model}, {"output", output_}};
    for (const auto& [key, value] : echoed_.items()) out[key] = value;
    out["usage"] = nullptr;
    return out;
  }

  Json finished(const Job& job) {
    if (job.error()) {
      Json out = response("failed");
      out["error"] = {{"code", "server_error"}, {"message", job.error()->message()}};
      return out;
    }
    Json out = response(cut_ ? "incomplete" : "completed");
    if (cut_) out["incomplete_details"] = {{"reason", "max_output_tokens"}};
    const Usage u = job.usage();
    out["usage"] = {{"input_tokens", u.prompt_tokens},
                    {"input_tokens_details", {{"cached_tokens", u.cached_tokens}}},
                    {"output_tokens", u.completion_tokens},
                    {"output_tokens_details", {{"reasoning_tokens", reasoning_tokens(front_, reasoning_, u.completion_tokens)}}},
                    {"total_tokens", u.prompt_tokens + u.completion_tokens}};
    if (keep_) keep(out);
    return out;
  }

  void keep(const Json& response) {
    Json answer = {{"role", "assistant"}, {"content", said_}};
    if (!calls_.empty()) answer["tool_calls"] = calls_;
    if (!reasoning_.empty()) answer["reasoning_content"] = reasoning_;
    Json messages = messages_;
    messages.push_back(std::move(answer));
    store_.put(call_.id, {.response = response, .messages = std::move(messages)});
  }

  void emit(const char* name, Json data, std::string* out) {
    if (out == nullptr) return;
    Json event = {{"type", name}, {"sequence_number", number_++}};
    event.update(data);
    *out += named_event(name, event);
  }

  void begin(std::string& out) {
    if (std::exchange(begun_, true)) return;
    emit("response.created", {{"response", response("in_progress")}}, &out);
    emit("response.in_progress", {{"response", response("in_progress")}}, &out);
  }

  Json at() const { return {{"item_id", item_["id"]}, {"output_index", output_.size()}}; }
  Json at_part() const {
    Json out = at();
    out["content_index"] = 0;
    return out;
  }
  Json with(Json where, const char* key, Json value) const {
    where[key] = std::move(value);
    return where;
  }

  void open(Kind kind, Json item, std::string* out) {
    close(out);
    kind_ = kind;
    item_ = std::move(item);
    text_.clear();
    emit("response.output_item.added", {{"output_index", output_.size()}, {"item", item_}}, out);
    if (kind == Kind::message) emit("response.content_part.added", with(at_part(), "part", text_part("")), out);
    if (kind == Kind::reasoning) emit("response.content_part.added", with(at_part(), "part", {{"type", "reasoning_text"}, {"text", ""}}), out);
  }

  /// `cut`: the answer ends here, within the item. A call is sent only when all of it is there.
  void close(std::string* out, bool cut = false) {
    if (kind_ == Kind::none) return;
    if (kind_ == Kind::reasoning) {
      const Json part = {{"type", "reasoning_text"}, {"text", text_}};
      emit("response.reasoning_text.done", with(at_part(), "text", text_), out);
      emit("response.content_part.done", with(at_part(), "part", part), out);
      item_["content"] = Json::array({part});
      reasoning_ += text_;
    } else if (kind_ == Kind::message) {
      emit("response.output_text.done", with(with(at_part(), "text", text_), "logprobs", logprobs_), out);
      const Json part = text_part(text_, std::exchange(logprobs_, Json::array()));
      emit("response.content_part.done", with(at_part(), "part", part), out);
      item_["content"] = Json::array({part});
      said_ += text_;
    } else {
      emit("response.function_call_arguments.done", with(with(at(), "arguments", text_), "name", item_["name"]), out);
      item_["arguments"] = text_;
      calls_.push_back({{"id", item_["call_id"]}, {"type", "function"}, {"function", {{"name", item_["name"]}, {"arguments", text_}}}});
    }
    if (kind_ != Kind::reasoning) item_["status"] = cut && kind_ == Kind::message ? "incomplete" : "completed";
    emit("response.output_item.done", {{"output_index", output_.size()}, {"item", item_}}, out);
    output_.push_back(std::move(item_));
    kind_ = Kind::none;
  }

  void take(const Delta& d, std::string* out) {
    if (d.finished != nullptr) cut_ = d.finished->finish() == FinishReason::length;
    if (!d.reasoning.empty()) {
      if (kind_ != Kind::reasoning) open(Kind::reasoning, {{"id", "rs_" + random_id()}, {"type", "reasoning"}, {"summary", Json::array()}}, out);
      text_ += d.reasoning;
      emit("response.reasoning_text.delta", with(at_part(), "delta", d.reasoning), out);
    }
    if (!d.text.empty()) {
      if (kind_ != Kind::message) {
        open(Kind::message, {{"id", "msg_" + random_id()}, {"type", "message"}, {"role", "assistant"}, {"status", "in_progress"}, {"content", Json::array()}}, out);
      }
      text_ += d.text;
      Json scores = Json::array();
      if (call_.spec.output.logprobs >= 0) scores = chat_logprobs_json(call_, front_, d.entries);
      for (const Json& s : scores) logprobs_.push_back(s);
      emit("response.output_text.delta", with(with(at_part(), "delta", d.text), "logprobs", std::move(scores)), out);
    }
    for (const Json& call : d.tool_calls) {
      const Json& f = call["function"];
      if (call.contains("id")) {
        open(Kind::call, {{"id", "fc_" + random_id()}, {"type", "function_call"}, {"status", "in_progress"}, {"call_id", call["id"]}, {"name", f["name"]}, {"arguments", ""}}, out);
      }
      const std::string& piece = f["arguments"].get_ref<const std::string&>();
      if (piece.empty()) continue;
      text_ += piece;
      emit("response.function_call_arguments.delta", with(at(), "delta", piece), out);
    }
  }

  const Call& call_;
  const Frontend& front_;
  ResponseStore& store_;
  Json echoed_, messages_;
  bool keep_, begun_ = false, cut_ = false;
  int64_t number_ = 0;
  Kind kind_ = Kind::none;
  Json item_, output_ = Json::array(), logprobs_ = Json::array(), calls_ = Json::array();
  std::string text_, said_, reasoning_;   ///< of the open item; of all messages; of all reasoning
};

}  // namespace

std::unique_ptr<AnswerWriter> responses_writer(const ResponsesRequest& request, const Call& call, const Frontend& front, ResponseStore& store) {
  return std::make_unique<ResponsesWriter>(request, call, front, store);
}

}  // namespace isotope::serve
