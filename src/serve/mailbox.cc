#include "serve/mailbox.h"

#include <utility>

namespace isotope::serve {

Event Event::copy(int child, const TokenEvent& e) {
  return Event{.child = child,
               .tokens = {e.tokens.begin(), e.tokens.end()},
               .logprobs = {e.logprobs.begin(), e.logprobs.end()},
               .top = {e.top_logprobs.begin(), e.top_logprobs.end()},
               .prompt = {e.prompt_logprobs.begin(), e.prompt_logprobs.end()},
               .finish = e.finish,
               .stop_token = e.stop_token,
               .error = e.error};
}

size_t Event::bytes() const {
  size_t n = sizeof(Event) + tokens.size() * sizeof(int32_t) + logprobs.size() * sizeof(TokenLogprob);
  for (const auto& list : top) n += sizeof(list) + list.size() * sizeof(TokenLogprob);
  return n;  // prompt log-probabilities come once and are bounded by the context, so they are not held against a slow reader
}

void Mailbox::push(Event e) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  const size_t size = e.bytes();
  // A final event always goes in: without it the reader would wait for ever.
  if (bytes_ + size > limit_ && e.finish == FinishReason::none) {
    overflowed_ = true;
  } else {
    bytes_ += size;
    events_.push_back(std::move(e));
  }
  if ((events_.size() == 1 || overflowed_) && wake_) wake_();
}

std::vector<Event> Mailbox::take() {
  const std::lock_guard lock(mutex_);
  bytes_ = 0;
  return std::exchange(events_, {});
}

bool Mailbox::overflowed() const {
  const std::lock_guard lock(mutex_);
  return overflowed_;
}

void Mailbox::set_wake(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void Mailbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  events_.clear();
  wake_ = nullptr;
}

}  // namespace isotope::serve
