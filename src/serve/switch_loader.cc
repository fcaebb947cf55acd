// The switch's loading thread: one model after another, making room first.
#include <fmt/format.h>

#include "base/log.h"
#include "serve/switch_wait.h"

namespace isotope::serve {
namespace {

using base::LogLevel;

std::string mib(size_t bytes) { return fmt::format("{:.1f} MiB", double(bytes) / double(1 << 20)); }

}  // namespace

bool SwitchHandler::watches_idle() const {
  for (const auto& e : entries_)
    if (e->state == State::loaded && e->spec.idle_s > 0 && !e->spec.pinned && e->leases == 0) return true;
  return false;
}

void SwitchHandler::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto due = [this] {
      for (const Entry* e : to_unload_)
        if (e->leases == 0) return true;
      return stopping_ || !to_load_.empty();
    };
    // A server whose models never go idle sleeps until it is asked.
    if (watches_idle()) work_.wait_for(lock, std::chrono::milliseconds(200), due);
    else work_.wait(lock, [&] { return due() || watches_idle(); });
    if (stopping_) break;
    for (auto it = to_unload_.begin(); it != to_unload_.end();) {
      Entry* e = *it;
      it = e->leases == 0 ? to_unload_.erase(it) : it + 1;
      if (e->leases == 0) unload(*e);
    }
    unload_idle();
    if (to_load_.empty()) continue;
    Entry& e = *to_load_.front();
    to_load_.pop_front();
    lock.unlock();
    load(e);
    lock.lock();
  }
  // Who still waits for a model hears why it does not come.
  for (const auto& e : entries_) {
    for (const auto& t : std::exchange(e->waiting, {}))
      t->answer(error_response(Error{Code::unavailable, "the server is shutting down", {}, "send the request to another server"}));
    if (e->state == State::loading) e->state = State::unloaded;
  }
}

void SwitchHandler::unload_idle() {
  const auto now = Clock::now();
  for (const auto& e : entries_) {
    const double idle = std::chrono::duration<double>(now - e->last_used).count();
    if (e->state != State::loaded || e->spec.pinned || e->spec.idle_s <= 0 || e->leases > 0 || idle < e->spec.idle_s) continue;
    base::log(LogLevel::info, "{} has been idle for {:.0f} s", e->spec.names.front(), idle);
    unload(*e);
  }
}

// REQUIRES: mutex_ is held, no leases. The engine's own end takes no longer than a step that nobody waits for.
void SwitchHandler::unload(Entry& e) {
  e.api.unready();
  e.model->front().engine().shutdown(0);
  e.model.reset();
  e.state = State::unloaded;
  e.unload_asked = false;
  base::log(LogLevel::info, "{} is unloaded", e.spec.names.front());
  if (!e.waiting.empty()) {
    e.state = State::loading;
    to_load_.push_back(&e);
  }
}

/// The loaded model that was used least recently, of those that may go.
SwitchHandler::Entry* SwitchHandler::idlest() {
  Entry* out = nullptr;
  for (const auto& e : entries_)
    if (e->state == State::loaded && !e->spec.pinned && e->leases == 0 && (out == nullptr || e->last_used < out->last_used)) out = e.get();
  return out;
}

Result<void> SwitchHandler::make_room(const Entry& e) {
  const std::lock_guard lock(mutex_);
  const std::string name = shown(Json(e.spec.names.front()));
  for (;;) {
    int loaded = 0;
    for (const auto& other : entries_) loaded += other->state == State::loaded;
    const size_t left = options_.free_bytes ? options_.free_bytes() : SIZE_MAX;
    const bool too_many = options_.most_loaded > 0 && loaded >= options_.most_loaded;
    if (!too_many && left >= e.spec.bytes) return {};
    if (Entry* other = idlest()) {
      base::log(LogLevel::info, "{} makes room for {}", other->spec.names.front(), e.spec.names.front());
      unload(*other);
      continue;
    }
    if (too_many)
      return fail(Code::unavailable, fmt::format("the model {} cannot be loaded: {} models are loaded, busy or pinned, at most {} may be", name, loaded, options_.most_loaded),
                  "--models-max", "try again later, or raise it");
    return fail(Code::unavailable, fmt::format("the model {} needs {} of memory, {} are free, and {} loaded models are busy or pinned", name, mib(e.spec.bytes), mib(left), loaded),
                e.spec.path, "try again later, unload a model, or serve a smaller one");
  }
}

Result<std::unique_ptr<ServedModel>> SwitchHandler::open(Entry& e, const std::function<void(const std::string&)>& phase) {
  ISO_CHECK_OK(make_room(e));
  base::log(LogLevel::info, "loading {}", e.spec.names.front());
  return e.spec.open([&](const std::string& p) {
    e.api.loading(p);
    if (phase) phase(p);
  });
}

void SwitchHandler::load(Entry& e, const std::function<void(const std::string&)>& phase) {
  auto opened = open(e, phase);
  std::vector<std::shared_ptr<Ticket>> waiting;
  std::optional<Error> failed;
  {
    const std::lock_guard lock(mutex_);
    waiting.swap(e.waiting);
    e.last_used = Clock::now();
    if (opened) {
      e.model = *std::move(opened);
      e.api.ready(e.model->front());
      e.state = State::loaded;
      e.failed.reset();
      e.leases += int64_t(waiting.size());
    } else {
      e.state = State::unloaded;
      e.failed = failed = opened.error();
      base::log(LogLevel::error, "{}: {}", e.spec.names.front(), opened.error().message());
    }
    work_.notify_all();  // start() loads on a thread of its own, and what is loaded may go idle
  }
  for (const auto& t : waiting) t->answer(failed ? Reply(error_response(*failed)) : lease(e, std::move(t->call)));
}

}  // namespace isotope::serve
