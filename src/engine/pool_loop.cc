#include "engine/pool_loop.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/clock.h"
#include "telemetry/metrics.h"

namespace isotope::engine {

PoolLoop::PoolLoop(PoolingInfo info, int64_t vocab, int64_t step_tokens, Open open)
    : info_(std::move(info)), vocab_(vocab), step_tokens_(step_tokens), open_(std::move(open)), last_step_ns_(now_ns()) {}

Result<void> PoolLoop::check(const PoolRequest& r) const {
  if (r.classify && info_.labels == 0)
    return fail(Code::unsupported, "the model has no classification head", "model", "serve a cross-encoder, or compare embeddings");
  for (size_t i = 0; i < r.inputs.size(); ++i) {
    const auto& t = r.inputs[i].tokens;
    const std::string source = fmt::format("input {}", i);
    if (t.empty()) return fail(Code::invalid_argument, "the input has no tokens", source, "give a text, or at least one token id");
    if (int64_t(t.size()) > info_.max_tokens)
      return fail(Code::invalid_argument, fmt::format("the input has {} tokens, the model reads at most {}", t.size(), info_.max_tokens), source,
                  "shorten it, or set truncate_prompt_tokens");
    for (const int32_t id : t)
      if (id < 0 || id >= vocab_)
        return fail(Code::invalid_argument, fmt::format("token id {} is not in the vocabulary of {} (0 to {})", id, vocab_, vocab_ - 1), source,
                    "give ids that the model's tokenizer makes");
  }
  return {};
}

Result<void> PoolLoop::submit(PoolRequest r) {
  ISO_CHECK_OK(check(r));
  if (r.inputs.empty()) return r.done(PoolRequest::Vectors()), Result<void>();
  auto a = std::make_shared<Active>();
  a->left = r.inputs.size();
  a->vectors.resize(r.inputs.size());
  a->request = std::move(r);
  const std::lock_guard lock(mutex_);
  if (closed_) return fail(Code::unavailable, "the engine is shutting down", "engine", "send the request to another server");
  ++requests_;
  inputs_ += int64_t(a->left);
  active_.push_back(std::move(a));
  if (!started_) thread_ = std::thread([this] { run(); });
  started_ = true;
  changed_.notify_one();
  return {};
}

// Each request gives an input in turn. REQUIRES: mutex_.
PoolLoop::Picked PoolLoop::pick() {
  Picked out;
  std::erase_if(active_, [](const auto& a) { return a->request.cancelled && *a->request.cancelled; });
  int64_t tokens = 0;
  bool room = true;
  for (bool any = true; any && room;) {
    any = false;
    for (const auto& a : active_) {
      if (a->next == a->request.inputs.size()) continue;
      const int64_t n = int64_t(a->request.inputs[a->next].tokens.size());
      if (!out.empty() && tokens + n > step_tokens_) { room = false; break; }
      out.emplace_back(a, a->next++);
      tokens += n;
      any = true;
    }
  }
  // The one that was served first now stands last.
  if (active_.size() > 1) std::rotate(active_.begin(), active_.begin() + 1, active_.end());
  tokens_ += tokens;
  return out;
}

void PoolLoop::finish(const std::shared_ptr<Active>& a, Result<void> result) {
  {
    const std::lock_guard lock(mutex_);
    if (std::erase(active_, a) == 0) return;  // it has had its answer, or nobody waits for it
    if (active_.empty()) changed_.notify_all();
  }
  if (!result) ++failed_;
  if (!result) a->request.done(tl::unexpected(std::move(result.error())));
  else a->request.done(std::move(a->vectors));
}

void PoolLoop::step(const Picked& picked) {
  std::vector<PoolItem> items;
  for (const auto& [a, i] : picked)
    items.push_back({&a->request.inputs[i], a->request.pooling.value_or(info_.pooling), a->request.normalize.value_or(info_.normalize), a->request.classify, a->request.activation});
  auto vectors = model_->run(items);
  // One text with a result that is no number must not cost its neighbours theirs.
  for (size_t k = 0; k < picked.size(); ++k) {
    const auto& [a, i] = picked[k];
    Result<PoolRequest::Vectors> own = !vectors && picked.size() > 1 ? model_->run({&items[k], 1}) : Result<PoolRequest::Vectors>();
    const bool alone = !vectors && picked.size() == 1;
    if (alone || !own) {
      finish(a, tl::unexpected(alone ? vectors.error() : own.error()));
      continue;
    }
    a->vectors[i] = std::move(vectors ? (*vectors)[k] : (*own)[0]);
    if (--a->left == 0) finish(a, {});
  }
}

void PoolLoop::run() noexcept {
  for (;;) {
    Picked picked;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closed_ || !active_.empty(); });
      if (aborted_ || (closed_ && active_.empty())) break;
      picked = pick();
    }
    if (picked.empty()) continue;
    Result<void> ready;
    try {
      if (!model_) {
        auto made = open_();
        if (made) model_ = *std::move(made), model_->adopt_caller();
        else ready = tl::unexpected(made.error());
      }
      if (ready) step(picked);
    } catch (const std::bad_alloc&) {
      ready = fail(Code::resource_exhausted, "there is no memory for the request", "engine", "retry in a moment");
    }
    ++steps_;
    last_step_ns_ = now_ns();
    if (!ready)
      for (const auto& [a, i] : picked) finish(a, ready);
  }
  std::deque<std::shared_ptr<Active>> rest;
  {
    const std::lock_guard lock(mutex_);
    rest.swap(active_);
  }
  for (const auto& a : rest) a->request.done(fail(Code::unavailable, "the server is shutting down", "engine", "send the request to another server"));
}

void PoolLoop::add_stats(EngineStats& s) const {
  const std::lock_guard lock(mutex_);
  for (const auto& a : active_) (a->next == 0 ? s.waiting : s.running) += 1;
  s.steps += steps_;
  s.prompt_tokens += tokens_;
  if (!active_.empty()) s.last_step_age_s = std::max(s.last_step_age_s, double(now_ns() - last_step_ns_) * 1e-9);
}

std::string PoolLoop::metrics(const std::string& model) const {
  std::string out;
  const auto row = [&](const char* name, const char* help, int64_t value) {
    out += fmt::format("# HELP isotope:{0}_total {1}\n# TYPE isotope:{0}_total counter\nisotope:{0}_total{2} {3}\n", name, help,
                       telemetry::label_text({{"model_name", model}}), value);
  };
  row("pooling_requests", "Requests for embeddings and scores.", requests_);
  row("pooling_inputs", "Texts of those requests.", inputs_);
  row("pooling_tokens", "Tokens of texts that have been computed.", tokens_);
  row("pooling_steps", "Steps that computed them.", steps_);
  row("pooling_failures", "Requests that ended with an error while being computed.", failed_);
  return out;
}

void PoolLoop::shutdown(double drain_s) {
  {
    std::unique_lock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::duration<double>(std::min(drain_s, 1e6)), [this] { return active_.empty(); });
    aborted_ = true;
  }
  changed_.notify_all();
  const std::lock_guard lock(join_);
  if (thread_.joinable()) thread_.join();
}

}  // namespace isotope::engine
