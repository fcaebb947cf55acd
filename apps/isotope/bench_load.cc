#include "bench_load.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>

namespace isotope::app {

namespace {

using Clock = std::chrono::steady_clock;

/// A group of requests that run together, and when their tokens came.
class Group {
 public:
  struct Times {
    Clock::time_point submitted, all_started, first_ended, ended;  ///< all_started: every sequence has its first token
    int64_t steps = 0;                                             ///< tokens of the first one to end, from then on until its end
  };

  explicit Group(size_t n) : outputs_(n, 0) {}

  Result<Times> run(Engine& engine, std::vector<Request> requests) {
    times_.submitted = Clock::now();
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].sink = [this, i](const TokenEvent& e) { take(i, e); };
      if (auto ok = engine.submit(std::move(requests[i])); !ok) {
        cancel(engine, i);
        return tl::unexpected(ok.error());
      }
    }
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return ended_ == outputs_.size(); });
    if (error_) return tl::unexpected(*error_);
    return times_;
  }

 private:
  void cancel(Engine& engine, size_t submitted) {
    for (size_t i = 0; i < submitted; ++i) engine.finish(i, FinishReason::abort);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return ended_ == submitted; });
  }

  void take(size_t i, const TokenEvent& e) {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    if (!e.tokens.empty() && outputs_[i] == 0 && ++started_ == outputs_.size()) {
      times_.all_started = now;
      outputs_[i] = 1;
      at_start_ = outputs_;
    } else {
      outputs_[i] += int64_t(e.tokens.size());
    }
    if (e.finish == FinishReason::none) return;
    if (e.error) error_ = e.error;
    if (ended_ == 0 && !at_start_.empty()) {
      times_.first_ended = now;
      times_.steps = outputs_[i] - at_start_[i];
    }
    times_.ended = now;
    if (++ended_ == outputs_.size()) done_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<int64_t> outputs_, at_start_;
  size_t started_ = 0, ended_ = 0;
  Times times_;
  std::optional<Error> error_;
};

}  // namespace

void show_progress(const std::string& text) {
  static const bool terminal = isatty(STDERR_FILENO);
  if (!terminal) return;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
}

std::vector<int32_t> BenchLoad::random_tokens(int64_t n, int64_t vocab) {
  std::vector<int32_t> v(static_cast<size_t>(n));
  for (auto& t : v) t = int32_t(random_() % uint64_t(vocab));
  return v;
}

Result<int64_t> BenchLoad::once(Engine& engine, const BenchCase& c, StepProfile* profile, StepTimes* times) {
  const int64_t vocab = engine.info().vocab;
  std::vector<Request> depth, timed;
  for (int64_t i = 0; i < c.parallel; ++i) {
    Request r;
    r.id = uint64_t(i);
    r.prompt = random_tokens(c.depth, vocab);
    r.use_prefix_cache = c.depth > 0;
    r.sampling = {.temperature = 0, .max_tokens = c.gen ? c.gen + 1 : 0, .ignore_eos = true};
    if (c.depth) {
      depth.emplace_back();
      depth.back().id = r.id;
      depth.back().prompt = r.prompt;
      depth.back().sampling = {.max_tokens = 0};
    }
    const auto rest = random_tokens(c.gen ? 1 : c.prompt, vocab);
    r.prompt.insert(r.prompt.end(), rest.begin(), rest.end());
    timed.push_back(std::move(r));
  }
  if (!depth.empty()) ISO_CHECK_OK(Group(depth.size()).run(engine, std::move(depth)));
  if (profile) profile->take();
  ISO_TRY(const auto t, Group(timed.size()).run(engine, std::move(timed)));
  if (profile && times) *times = profile->take();
  const auto ns = [](Clock::duration d) { return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count(); };
  if (c.prompt) return ns(t.ended - t.submitted);
  if (t.steps == 0)
    return fail(Code::unavailable, "the sequences did not run together", "bench", "generate more tokens (-n) or run fewer sequences (-npl)");
  return int64_t(double(ns(t.first_ended - t.all_started)) / double(t.steps) * double(c.gen));
}

}  // namespace isotope::app
