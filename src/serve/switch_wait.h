// Answers of models that may not be there yet. Internal to the switch.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "serve/anthropic.h"
#include "serve/switch.h"

namespace isotope::serve {

/// A request that waits for its model, shared between its connection and the loader.
struct SwitchHandler::Ticket {
  std::mutex mutex;
  HttpCall call;
  std::optional<Reply> reply;
  std::function<void()> wake;
  bool gone = false;               ///< the client has left, or has had another answer
  bool messages = false;           ///< Anthropic's client: errors are told in its shape

  void answer(Reply r) {
    const std::lock_guard lock(mutex);
    if (gone || reply) return;
    reply = messages ? in_messages_shape(std::move(r)) : std::move(r);
    if (auto* pending = std::get_if<std::unique_ptr<Pending>>(&*reply); pending != nullptr && wake) (*pending)->set_wake(wake);
    if (wake) wake();
  }
};

struct SwitchHandler::Entry {
  Entry(ModelSpec s, ApiOptions o) : spec(std::move(s)), api(std::move(o)) {}
  ModelSpec spec;
  ApiHandler api;
  State state = State::unloaded;
  std::unique_ptr<ServedModel> model;
  int64_t leases = 0;              ///< answers under way
  bool unload_asked = false;
  std::optional<Error> failed;     ///< how the last attempt to load it ended
  Clock::time_point last_used = Clock::now();
  std::vector<std::shared_ptr<Ticket>> waiting;
};

/// Until the model is there nothing comes; then it is the model's own answer.
class SwitchHandler::Waiting final : public Pending {
 public:
  explicit Waiting(std::shared_ptr<Ticket> t) : ticket_(std::move(t)) {}
  ~Waiting() override {
    std::optional<Reply> dropped;   // ends outside the lock: it may call back
    const std::lock_guard lock(ticket_->mutex);
    ticket_->gone = true;
    ticket_->wake = nullptr;
    dropped.swap(ticket_->reply);
  }
  bool streaming() const override { return inner() != nullptr && inner()->streaming(); }
  void set_wake(std::function<void()> wake) override {
    const std::lock_guard lock(ticket_->mutex);
    ticket_->wake = wake;
    if (Pending* p = locked_inner()) p->set_wake(wake);
  }
  State pump(std::string& out) override {
    Pending* p = inner();
    if (p != nullptr) return p->pump(out);
    const std::lock_guard lock(ticket_->mutex);
    return ticket_->reply ? State::finished : State::running;
  }
  HttpResponse response() override {
    if (Pending* p = inner()) return p->response();
    return std::get<HttpResponse>(std::move(*ticket_->reply));
  }
  void fail(const Error& e) override {
    if (Pending* p = inner()) return p->fail(e);
    ticket_->answer(error_response(e));
  }
  bool overflowed() const override { return inner() != nullptr && inner()->overflowed(); }
  void abandoned() override {
    if (Pending* p = inner()) p->abandoned();
  }

 private:
  Pending* locked_inner() const {
    auto* p = ticket_->reply ? std::get_if<std::unique_ptr<Pending>>(&*ticket_->reply) : nullptr;
    return p != nullptr ? p->get() : nullptr;
  }
  Pending* inner() const {
    const std::lock_guard lock(ticket_->mutex);
    return locked_inner();
  }
  std::shared_ptr<Ticket> ticket_;
};

/// Keeps the model while the answer is under way.
class SwitchHandler::Leased final : public Pending {
 public:
  Leased(std::unique_ptr<Pending> inner, std::function<void()> release) : inner_(std::move(inner)), release_(std::move(release)) {}
  ~Leased() override {
    inner_.reset();
    release_();
  }
  bool streaming() const override { return inner_->streaming(); }
  void set_wake(std::function<void()> wake) override { inner_->set_wake(std::move(wake)); }
  State pump(std::string& out) override { return inner_->pump(out); }
  HttpResponse response() override { return inner_->response(); }
  void fail(const Error& e) override { inner_->fail(e); }
  bool overflowed() const override { return inner_->overflowed(); }
  void abandoned() override { inner_->abandoned(); }

 private:
  std::unique_ptr<Pending> inner_;
  std::function<void()> release_;
};

}  // namespace isotope::serve
