#include "serve/pool_answer.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "serve/answer.h"

namespace isotope::serve {
namespace {

constexpr size_t kVectorsAtOnce = 512;

/// Shared with the engine's thread, which may come back after the client has gone.
struct Box {
  std::mutex mutex;
  std::optional<Result<PoolRequest::Vectors>> result;
  std::function<void()> wake;

  void put(Result<PoolRequest::Vectors> r) {
    const std::lock_guard lock(mutex);
    if (!result) result = std::move(r);
    if (wake) wake();
  }
};

class PoolAnswer final : public Pending {
 public:
  PoolAnswer(std::unique_ptr<PoolWriter> writer, std::function<void(bool)> ended) : writer_(std::move(writer)), ended_(std::move(ended)) {}
  ~PoolAnswer() override {
    *cancelled_ = true;
    const std::lock_guard lock(box_->mutex);
    box_->wake = nullptr;
    over(false);
  }

  Result<void> start(PoolRequest r, Engine& engine) {
    r.cancelled = cancelled_;
    r.done = [box = box_](Result<PoolRequest::Vectors> v) { box->put(std::move(v)); };
    return engine.pool(std::move(r));
  }
  void forget() { ended_ = nullptr; }

  bool streaming() const override { return false; }
  void set_wake(std::function<void()> wake) override {
    const std::lock_guard lock(box_->mutex);
    box_->wake = std::move(wake);
  }
  bool overflowed() const override { return false; }
  void abandoned() override { over(false); }
  void fail(const Error& e) override {
    if (!vectors_) box_->put(tl::unexpected(e));
  }

  State pump(std::string&) override {
    const std::lock_guard lock(box_->mutex);
    if (!box_->result) return State::running;
    if (!vectors_ && !error_) {
      if (*box_->result) vectors_ = std::move(**box_->result);
      else error_ = box_->result->error();
    }
    if (!error_ && !writer_->write(*vectors_, kVectorsAtOnce, text_)) {
      if (box_->wake) box_->wake();
      return State::running;
    }
    over(!error_);
    return State::finished;
  }

  HttpResponse response() override { return error_ ? error_response(*error_) : HttpResponse{.body = std::move(text_)}; }

 private:
  void over(bool done) {
    if (auto ended = std::exchange(ended_, nullptr)) ended(done);
  }

  std::shared_ptr<Box> box_ = std::make_shared<Box>();
  std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<PoolWriter> writer_;
  std::function<void(bool)> ended_;
  std::optional<PoolRequest::Vectors> vectors_;
  std::optional<Error> error_;
  std::string text_;
};

}  // namespace

Result<std::unique_ptr<Pending>> start_pool(PoolCall call, Engine& engine, std::function<void(bool)> ended) {
  auto answer = std::make_unique<PoolAnswer>(std::move(call.writer), std::move(ended));
  if (auto started = answer->start(std::move(call.request), engine); !started) {
    answer->forget();
    return tl::unexpected(std::move(started.error()));
  }
  return answer;
}

}  // namespace isotope::serve
