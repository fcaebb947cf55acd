#include "serve_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <mutex>
#include <thread>

#include "base/cgroup.h"
#include "base/heap_keeper.h"
#include "base/log.h"
#include "commands.h"
#include "load.h"
#include "log_lines.h"
#include "serve/switch.h"

namespace isotope::app {
namespace {

using base::LogLevel;
using Clock = std::chrono::steady_clock;

void to_stderr(LogLevel level, std::string_view line) {
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  char time[16];
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  std::strftime(time, sizeof time, "%H:%M:%S", localtime_r(&now, &local));
  std::fprintf(stderr, "%s %-7s %.*s\n", time, kNames[size_t(level)], int(line.size()), line.data());
}

/// SIGINT and SIGTERM as something to wait for. Constructed before any other thread, so that all threads leave the signals to it.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    fd_ = signalfd(-1, &set_, SFD_CLOEXEC);
  }
  ~Signals() { ::close(fd_); }
  /// The signal that came, or 0 after `seconds` (-1: no limit) or when `other` became readable.
  int wait(double seconds, int other = -1) const {
    pollfd p[2] = {{fd_, POLLIN, 0}, {other, POLLIN, 0}};
    if (::poll(p, 2, seconds < 0 ? -1 : int(seconds * 1000)) <= 0 || (p[0].revents & POLLIN) == 0) return 0;
    signalfd_siginfo info{};
    return ::read(fd_, &info, sizeof info) == sizeof info ? int(info.ssi_signo) : 0;
  }

 private:
  sigset_t set_{};
  int fd_ = -1;
};

void configure_keeper(const levers::Housekeeping& h) {
  base::GcThresholds t;
  if (h.gc_threshold.size() == 3) t = {h.gc_threshold[0], h.gc_threshold[1], h.gc_threshold[2]};
  base::HeapKeeper::process().configure(t, h.gc_debug, "server");
}

/// A model of several, in memory.
class LoadedModel final : public serve::ServedModel {
 public:
  explicit LoadedModel(Loaded l) : loaded_(std::move(l)) {}
  serve::Frontend& front() override { return *loaded_.front; }

 private:
  Loaded loaded_;
};

class Server {
 public:
  Server(ServeOptions options, const levers::Levers& levers) : options_(std::move(options)), levers_(levers), api_(api_options()) {}

  int run();

 private:
  serve::ApiOptions api_options();
  serve::SwitchOptions switch_options();
  Result<void> load_model_or_models();
  Result<void> open_request_log();
  int load(const Signals&);
  void start_report() const;
  int stop(const Signals&);
  [[noreturn]] void leave(int status) const;

  ServeOptions options_;
  const levers::Levers& levers_;
  std::ofstream request_log_;
  std::mutex request_log_mutex_;
  serve::ApiHandler api_;
  std::unique_ptr<serve::SwitchHandler> several_;   ///< instead of api_, when there are several models
  Loaded loaded_;                            // before the HTTP server: answers under way use it
  std::unique_ptr<serve::HttpServer> http_;
};

serve::ApiOptions Server::api_options() {
  serve::ApiOptions o = options_.api;
  if (!options_.request_log.empty()) {
    o.request_log = [this](const serve::Json& line) {
      const std::lock_guard lock(request_log_mutex_);
      request_log_ << serve::dump(line) << std::endl;
    };
  }
  return o;
}

serve::SwitchOptions Server::switch_options() {
  serve::SwitchOptions s{.api = api_options(), .most_loaded = options_.models_max, .autoload = options_.models_autoload};
  s.free_bytes = [] { const auto n = base::available_memory(); return n == 0 ? SIZE_MAX : size_t(n); };
  const int together = options_.models_max > 0 ? std::min(options_.models_max, int(options_.models.size())) : int(options_.models.size());
  for (const NamedModel& m : options_.models) {
    EngineOptions engine = options_.engine;
    engine.model = m.path;
    engine.served_name = m.name;
    engine.memory_fraction /= together;   // each model's share of what is free when it is loaded
    const auto open = [this, engine](std::function<void(const std::string&)> phase) -> Result<std::unique_ptr<serve::ServedModel>> {
      ISO_TRY(auto loaded, load_model(engine, levers_, options_.front, [&](const LoadProgress& p) { phase(progress_text(p)); }));
      return std::make_unique<LoadedModel>(std::move(loaded));
    };
    s.models.push_back({.names = {m.name}, .path = m.path, .bytes = m.bytes, .pinned = m.pinned, .idle_s = options_.idle_s, .open = open});
  }
  std::vector<std::string>& first = s.models.front().names;
  first.insert(first.begin(), options_.api.served_names.begin(), options_.api.served_names.end());
  return s;
}

Result<void> Server::load_model_or_models() {
  if (several_) return several_->start({});
  ISO_TRY(loaded_, load_model(options_.engine, levers_, options_.front, [this](const LoadProgress& p) { api_.loading(progress_text(p)); }));
  return {};
}

Result<void> Server::open_request_log() {
  if (options_.request_log.empty()) return {};
  request_log_.open(options_.request_log, std::ios::app);
  if (!request_log_) return fail(Code::invalid_argument, "cannot write '" + options_.request_log + "'", "--request-log", "choose a file in a folder that exists");
  return {};
}

// For the moments when threads are still busy with what can no longer matter.
void Server::leave(int status) const {
  std::fflush(nullptr);
  std::_Exit(status);
}

int Server::run() {
  const Signals signals;
  if (options_.models.size() > 1) several_ = std::make_unique<serve::SwitchHandler>(switch_options());  // starts a thread
  configure_keeper(levers_.housekeeping());
  base::set_log_sink(options_.log_level == "off" ? base::LogSink() : to_stderr, level_of(options_.log_level));
  if (auto opened = open_request_log(); !opened) return report(opened.error());
  auto http = serve::HttpServer::listen(options_.http, several_ ? static_cast<serve::Handler&>(*several_) : api_);
  if (!http) return report(http.error());
  http_ = *std::move(http);
  base::log(LogLevel::info, "listening on {}, loading {}", http_->url(), options_.engine.model);
  if (const int status = load(signals); status >= 0) return status;
  start_report();
  const int signal = signals.wait(-1);
  base::log(LogLevel::info, "signal {}: stopping; running answers get {} s, a second signal ends at once", signal, options_.drain_s);
  return stop(signals);
}

// -1 when the model is there, else the exit status.
int Server::load(const Signals& signals) {
  const int done = eventfd(0, EFD_CLOEXEC);
  Result<void> result;
  std::thread loader([&] {
    result = load_model_or_models();
    eventfd_write(done, 1);
  });
  const int signal = signals.wait(-1, done);
  if (signal != 0) {
    base::log(LogLevel::info, "signal {} while loading: stopped", signal);
    http_->drain();
    http_->end_answers(Error{Code::unavailable, "the server is shutting down"});
    http_->wait_closed(1);
    leave(0);  // the loader cannot be interrupted, and nothing of it is worth waiting for
  }
  loader.join();
  ::close(done);
  if (!result) return report(result.error());
  if (levers_.housekeeping().gc_freeze) base::HeapKeeper::process().freeze();
  if (several_) return -1;
  api_.ready(*loaded_.front);
  return -1;
}

void Server::start_report() const {
  // Model, context, cache, threads and instruction set are the engine's own lines.
  if (loaded_.engine) base::log(LogLevel::info, "fingerprint {}", loaded_.engine->info().fingerprint);
  for (const NamedModel& m : options_.models)
    if (several_) base::log(LogLevel::info, "model {}: {}", m.name, m.path);
  base::log(LogLevel::info, "ready: {}/v1", http_->url());
}

int Server::stop(const Signals& signals) {
  base::HeapKeeper::process().unfreeze();
  if (several_) several_->drain();
  else api_.drain();
  http_->drain();
  const int done = eventfd(0, EFD_CLOEXEC);
  std::thread stopper([&] {
    if (several_) several_->shutdown(options_.drain_s);
    else loaded_.engine->shutdown(options_.drain_s);
    eventfd_write(done, 1);
  });
  const auto check_second = [&](double seconds, int other) {
    if (const int again = signals.wait(seconds, other); again != 0) leave(128 + again);
  };
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.drain_s));
  while (!http_->wait_closed(0) && Clock::now() < end) check_second(0.02, -1);
  // Whatever the engine is busy with, clients are told within the stated time.
  http_->end_answers(Error{Code::unavailable, "the server is shutting down", {}, "send the request to another server"});
  for (int i = 0; i < 100 && !http_->wait_closed(0); ++i) check_second(0.02, -1);
  http_.reset();
  // Every client has its answer. What the engine's threads are still busy with ends at the latest with the process.
  const double patience = levers_.housekeeping().shutdown_timeout_s;
  check_second(patience, done);
  pollfd p{done, POLLIN, 0};
  if (::poll(&p, 1, 0) != 1) {
    base::log(LogLevel::warning, "the engine was in the middle of a step {} s after the last answer; it is left there (ATOM_SHUTDOWN_TIMEOUT_S)", patience);
    leave(0);
  }
  stopper.join();
  ::close(done);
  base::log(LogLevel::info, "stopped");
  return 0;
}

}  // namespace

int run_server(ServeOptions options, const levers::Levers& levers) {
  Server server(std::move(options), levers);
  return server.run();
}

}  // namespace isotope::app
