// Collects the events of many requests and waits for their ends.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "isotope/engine.h"

namespace isotope::engine::test {

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<TokenLogprob> logprobs;
  std::vector<std::vector<TokenLogprob>> top, prompt;
  FinishReason finish = FinishReason::none;
  int32_t stop_token = -1;
  std::optional<Error> error;
  int events = 0, finals = 0;
};

inline bool operator==(const TokenLogprob& a, const TokenLogprob& b) {  // bits, not values
  return a.token == b.token && a.rank == b.rank && std::memcmp(&a.logprob, &b.logprob, sizeof(float)) == 0;
}

inline bool same(const std::vector<TokenLogprob>& a, const std::vector<TokenLogprob>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) { return test::operator==(x, y); });
}

/// Same tokens, same log-probabilities, bit for bit.
inline void expect_same(const Answer& got, const Answer& want, const std::string& where) {
  EXPECT_EQ(got.tokens, want.tokens) << where;
  EXPECT_EQ(got.finish, want.finish) << where;
  EXPECT_EQ(got.stop_token, want.stop_token) << where;
  EXPECT_TRUE(same(got.logprobs, want.logprobs)) << where;
  ASSERT_EQ(got.top.size(), want.top.size()) << where;
  for (size_t i = 0; i < got.top.size(); ++i) EXPECT_TRUE(same(got.top[i], want.top[i])) << where << ", token " << i;
  ASSERT_EQ(got.prompt.size(), want.prompt.size()) << where;
  for (size_t i = 0; i < got.prompt.size(); ++i)
    EXPECT_TRUE(same(got.prompt[i], want.prompt[i])) << where << ", prompt token " << i;
}

class Collector {
 public:
  TokenSink sink(uint64_t id) {
    return [this, id](const TokenEvent& e) {
      const std::lock_guard lock(mutex_);
      Answer& a = answers_[id];
      EXPECT_EQ(a.finals, 0) << "an event after the final one";
      ++a.events;
      a.tokens.insert(a.tokens.end(), e.tokens.begin(), e.tokens.end());
      a.logprobs.insert(a.logprobs.end(), e.logprobs.begin(), e.logprobs.end());
      a.top.insert(a.top.end(), e.top_logprobs.begin(), e.top_logprobs.end());
      if (!e.prompt_logprobs.empty()) {
        EXPECT_TRUE(a.prompt.empty());
        a.prompt.assign(e.prompt_logprobs.begin(), e.prompt_logprobs.end());
      }
      if (e.finish != FinishReason::none) {
        ++a.finals;
        a.finish = e.finish;
        a.stop_token = e.stop_token;
        a.error = e.error;
        ++ended_;
      }
      changed_.notify_all();
    };
  }
  bool wait_ended(int n, std::chrono::seconds limit = std::chrono::seconds(60)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return ended_ >= n; });
  }
  bool wait_tokens(uint64_t id, size_t n, std::chrono::seconds limit = std::chrono::seconds(60)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return answers_[id].tokens.size() >= n || answers_[id].finals > 0; });
  }
  Answer answer(uint64_t id) {
    const std::lock_guard lock(mutex_);
    return answers_[id];
  }
  int ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Answer> answers_;
  int ended_ = 0;
};

/// Keeps the engine's thread busy in a sink until it goes out of scope, so that what is submitted meanwhile starts in one step.
class Gate {
 public:
  static constexpr uint64_t kId = UINT64_MAX;
  explicit Gate(Engine& engine) {
    Request r;
    r.id = kId;
    r.prompt = {0};
    r.sampling.max_tokens = 0;
    r.use_prefix_cache = false;
    r.sink = [s = state_](const TokenEvent&) {
      s->entered = true;
      s->entered.notify_all();
      s->open.wait(false);
    };
    EXPECT_TRUE(engine.submit(std::move(r)));
    state_->entered.wait(false);
  }
  ~Gate() {
    state_->open = true;
    state_->open.notify_all();
  }

 private:
  struct State {
    std::atomic<bool> entered{false}, open{false};
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Runs requests together, from one common step on, and returns their answers, by id.
inline std::map<uint64_t, Answer> run(Engine& engine, std::vector<Request> requests) {
  Collector c;
  std::map<uint64_t, Answer> out;
  int accepted = 0;
  std::vector<uint64_t> ids;
  {
    std::optional<Gate> gate;
    if (requests.size() > 1) gate.emplace(engine);
    for (Request& r : requests) {
      ids.push_back(r.id);
      r.sink = c.sink(r.id);
      const auto ok = engine.submit(std::move(r));
      EXPECT_TRUE(ok) << (ok ? "" : ok.error().message());
      accepted += bool(ok);
    }
  }
  EXPECT_TRUE(c.wait_ended(accepted)) << "requests hang";
  for (const uint64_t id : ids) out[id] = c.answer(id);
  return out;
}

inline Answer run_one(Engine& engine, Request r) {
  const uint64_t id = r.id;
  std::vector<Request> v;
  v.push_back(std::move(r));
  return run(engine, std::move(v))[id];
}

}  // namespace isotope::engine::test
