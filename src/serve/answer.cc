#include "serve/answer.h"

#include <algorithm>

#include <utility>
#include <vector>

#include "serve/reply_reader.h"

namespace isotope::serve {
namespace {

std::string event(const Json& data) { return "data: " + dump(data) + "\n\n"; }

class Answer final : public Pending {
 public:
  Answer(Call call, Frontend& front, AnswerOptions options)
      : call_(std::move(call)),
        front_(front),
        options_(std::move(options)),
        job_(front.engine(), front.tokenizer(), call_.spec, options_.mailbox_bytes),
        streams_(job_.choice_count()) {
    if (options_.writer) writer_ = options_.writer(call_, front_);
  }
  ~Answer() override { over(Outcome::abandoned); }

  Result<void> start() {
    auto started = job_.start(front_.next_id());
    over_ = !started;  // a refused call was never under way
    return started;
  }

  bool streaming() const override { return call_.stream; }
  void set_wake(std::function<void()> wake) override { job_.set_wake(std::move(wake)); }
  bool overflowed() const override { return job_.overflowed(); }
  void fail(const Error& e) override { job_.fail_with(e); }
  void abandoned() override { over(Outcome::abandoned); }

  State pump(std::string& out) override {
    job_.poll();
    if (job_.overflowed()) return State::broken;
    if (call_.stream) stream(out);
    if (!job_.finished()) return State::running;
    if (call_.stream && (!job_.error() || started_)) end_stream(out);
    over(job_.error() ? Outcome::failed : Outcome::completed);
    return State::finished;
  }

  HttpResponse response() override;

 private:
  struct StreamState {
    int64_t code_points = 0;
    bool first = true, ended = false;
    std::unique_ptr<ReplyReader> reader;
  };

  Delta take_delta(int child, int index);
  void stream(std::string& out);
  void end_stream(std::string& out);
  Json chunk(const Delta& d);
  void write(const Delta& d, std::string& out) {
    if (writer_) return writer_->part(d, job_, out);
    out += event(chunk(d));
  }
  void over(Outcome o) {
    if (std::exchange(over_, true)) return;
    if (options_.ended) options_.ended(call_, job_, o);
  }

  Call call_;
  Frontend& front_;
  AnswerOptions options_;
  Job job_;
  std::vector<StreamState> streams_;
  std::unique_ptr<AnswerWriter> writer_;
  bool started_ = false, over_ = false;
};

Delta Answer::take_delta(int child, int index) {
  Choice& c = job_.choice(child);
  StreamState& s = streams_[size_t(child)];
  Delta d{.index = index, .text = c.take_text(), .entries = c.take_entries(), .ids = c.take_ids(), .text_offset = s.code_points, .first = s.first};
  if (s.first && call_.return_token_ids) d.prompt_ids = &job_.spec().prompts[size_t(job_.prompt_of(child))].ids;
  if (c.finished()) d.finished = &c;
  // Entries trail the text by what may still become a stop string, so their offsets follow the entries.
  for (const Entry& e : d.entries) s.code_points += code_points(e.text);
  s.first = false;
  s.ended = c.finished();
  if (call_.reply.active() && !s.reader) s.reader = std::make_unique<ReplyReader>(call_.reply);
  return d;
}

Json Answer::chunk(const Delta& d) {
  Json out = envelope(call_, front_, true);
  out["choices"].push_back(chunk_choice_json(call_, front_, d));
  if (d.prompt_ids != nullptr && call_.chat) out["prompt_token_ids"] = *d.prompt_ids;
  if (call_.continuous_usage) {
    out["usage"] = usage_json(job_.usage());
  } else if (call_.include_usage) {
    out["usage"] = nullptr;
  }
  return out;
}

void Answer::stream(std::string& out) {
  size_t ended = 0;
  for (const StreamState& s : streams_) ended += s.ended ? 1 : 0;
  for (int child = 0; child < int(streams_.size()); ++child) {
    const Choice& c = job_.choice(child);
    if (streams_[size_t(child)].ended || (!c.has_news() && !c.finished())) continue;
    Delta taken = take_delta(child, child);
    StreamState& s = streams_[size_t(child)];
    std::vector<Delta> parts;
    if (s.reader) {
      parts = s.reader->stream(std::move(taken));
    } else {
      parts.push_back(std::move(taken));
    }
    for (size_t i = 0; i + 1 < parts.size(); ++i) write(parts[i], out);
    started_ |= parts.size() > 1;
    const Delta& d = parts.back();
    // Tokens whose text is still held back make no chunk of their own unless their ids were asked.
    const bool silent = d.text.empty() && d.reasoning.empty() && d.tool_calls.empty() && d.entries.empty() && d.finished == nullptr && !(call_.return_token_ids && !d.ids.empty());
    if (silent) {
      s.first = d.first;
      continue;
    }
    if (writer_) {
      writer_->part(d, job_, out);
      started_ = true;
      continue;
    }
    Json data = chunk(d);
    if (d.finished != nullptr && ++ended == streams_.size() && call_.timings && !call_.include_usage) data["timings"] = timings_json(job_);
    out += event(data);
    started_ = true;
  }
}

void Answer::end_stream(std::string& out) {
  if (writer_) return writer_->end(job_, out);
  if (job_.error()) {
    out += event(error_body(*job_.error()));
  } else if (call_.include_usage) {
    Json last = envelope(call_, front_, true);
    last["usage"] = usage_json(job_.usage());
    if (call_.timings) last["timings"] = timings_json(job_);
    out += event(last);
  }
  out += "data: [DONE]\n\n";
}

HttpResponse Answer::response() {
  if (writer_ && job_.error()) return error_response(*job_.error(), front_.engine().stats().retry_after_s, writer_->error(*job_.error()));
  if (writer_) {
    Delta d = take_delta(0, 0);
    if (const auto& reader = streams_[0].reader) d = reader->whole(std::move(d));
    return json_response(writer_->whole(d, job_));
  }
  if (job_.error()) return error_response(*job_.error(), front_.engine().stats().retry_after_s);
  Json out = envelope(call_, front_, false);
  const std::vector<int> order = job_.returned();
  for (size_t i = 0; i < order.size(); ++i) {
    const int child = order[i];
    Delta d = take_delta(child, int(i));
    if (const auto& reader = streams_[size_t(child)].reader) d = reader->whole(std::move(d));
    Json choice = choice_json(call_, front_, d);
    if (call_.spec.output.prompt_logprobs >= 0) {
      Json list = prompt_logprobs_json(front_, job_.choice(child));
      if (call_.chat) {
        out["prompt_logprobs"] = std::move(list);
      } else {
        choice["prompt_logprobs"] = std::move(list);
      }
    }
    if (d.prompt_ids != nullptr && call_.chat) out["prompt_token_ids"] = *d.prompt_ids;
    out["choices"].push_back(std::move(choice));
  }
  out["usage"] = usage_json(job_.usage());
  if (call_.timings) out["timings"] = timings_json(job_);
  return json_response(out);
}

}  // namespace

HttpResponse json_response(const Json& body, int status) { return {.status = status, .body = dump(body)}; }

HttpResponse error_response(const ApiError& e, int retry_after_s, const Json& body) {
  HttpResponse r = json_response(body.is_null() ? error_body(e) : body, http_status(e));
  if (r.status == 429 || r.status == 503) r.headers.emplace_back("Retry-After", std::to_string(std::max(1, retry_after_s)));
  return r;
}

Api<std::unique_ptr<Pending>> start_answer(Call call, Frontend& front, AnswerOptions options) {
  auto answer = std::make_unique<Answer>(std::move(call), front, std::move(options));
  ISO_CHECK_OK(answer->start());
  return answer;
}

}  // namespace isotope::serve
