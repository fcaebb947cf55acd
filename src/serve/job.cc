#include "serve/job.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace isotope::serve {

Job::Job(Engine& engine, const text::Tokenizer& tok, const JobSpec& spec, size_t mailbox_bytes)
    : engine_(engine), spec_(spec), mailbox_(std::make_shared<Mailbox>(mailbox_bytes)) {
  for (const Prompt& prompt : spec_.prompts) {
    for (int i = 0; i < spec_.best_of; ++i) choices_.push_back(std::make_unique<Choice>(tok, spec_.output, prompt));
  }
  open_ = int(choices_.size());
  engine_done_.assign(choices_.size(), false);
}

Job::~Job() {
  mailbox_->close();
  finish_children(FinishReason::abort);
}

Result<void> Job::start(std::atomic<uint64_t>& next_id) {
  for (size_t child = 0; child < choices_.size(); ++child) {
    const Prompt& prompt = spec_.prompts[size_t(prompt_of(int(child)))];
    Request r{.id = next_id.fetch_add(1), .prompt = prompt.ids, .sampling = spec_.sampling};
    r.sampling.choice = int32_t(child % size_t(spec_.best_of));
    r.sampling.max_tokens = prompt.max_tokens;
    r.priority = spec_.priority;
    r.share_key = spec_.share_key;
    r.deadline_ms = spec_.deadline_ms;
    r.cache_salt = spec_.cache_salt;
    r.salt_from = prompt.salt_from;
    r.pin_tokens = prompt.pin_tokens;
    r.pin_s = spec_.pin_s;
    r.label = spec_.label;
    r.rank = spec_.rank;
    r.session = spec_.session;
    r.session_has_parent = spec_.session_has_parent;
    if (spec_.grammar) r.mask = spec_.grammar->mask();
    // A position that comes from the cache has no logits to score.
    r.use_prefix_cache = spec_.sampling.prompt_logprobs < 0;
    r.sink = [box = mailbox_, child = int(child)](const TokenEvent& e) { box->push(Event::copy(child, e)); };
    const uint64_t id = r.id;
    auto accepted = engine_.submit(std::move(r));
    if (!accepted) {
      mailbox_->close();
      finish_children(FinishReason::abort);
      return tl::unexpected(std::move(accepted).error());
    }
    ids_.push_back(id);
  }
  return {};
}

void Job::poll() {
  for (const Event& e : mailbox_->take()) {
    const size_t child = size_t(e.child);
    if (e.finish != FinishReason::none) engine_done_[child] = true;
    Choice& choice = *choices_[child];
    if (choice.finished() || error_) continue;
    if (e.finish == FinishReason::error || e.finish == FinishReason::abort) {
      fail_with(e.error.value_or(Error{Code::unavailable, "the request was ended by the server", {}, "send it again later"}));
      continue;
    }
    choice.take(e);
    if (!choice.finished()) continue;
    --open_;
    if (choice.stopped_by_text() && !engine_done_[child]) engine_.finish(ids_[child], FinishReason::stop);
  }
}

void Job::fail_with(Error e) {
  if (finished()) return;
  error_ = std::move(e);
  finish_children(FinishReason::abort);
}

void Job::finish_children(FinishReason reason) {
  for (size_t child = 0; child < ids_.size(); ++child) {
    if (!std::exchange(engine_done_[child], char(true))) engine_.finish(ids_[child], reason);
  }
}

std::vector<int> Job::returned() const {
  std::vector<int> out;
  for (int p = 0; p < int(spec_.prompts.size()); ++p) {
    std::vector<int> rank(size_t(spec_.best_of));
    std::iota(rank.begin(), rank.end(), p * spec_.best_of);
    if (spec_.best_of > spec_.n) {
      std::stable_sort(rank.begin(), rank.end(), [&](int a, int b) {
        return choices_[size_t(a)]->cumulative_logprob() > choices_[size_t(b)]->cumulative_logprob();
      });
      rank.resize(size_t(spec_.n));
    }
    out.insert(out.end(), rank.begin(), rank.end());
  }
  return out;
}

std::optional<RequestStats> Job::stats(int child) const {
  return size_t(child) < ids_.size() ? engine_.stats(ids_[size_t(child)]) : std::nullopt;
}

Usage Job::usage() const {
  Usage u;
  for (size_t p = 0; p < spec_.prompts.size(); ++p) {
    u.prompt_tokens += int64_t(spec_.prompts[p].ids.size());
    u.truncated_tokens += spec_.prompts[p].truncated;
    if (const auto s = stats(int(p) * spec_.best_of)) u.cached_tokens += s->cached_tokens;
  }
  for (const auto& c : choices_) u.completion_tokens += c->tokens();
  return u;
}

}  // namespace isotope::serve
