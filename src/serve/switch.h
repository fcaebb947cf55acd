// Several models behind one server: a request's `model` chooses one, which is loaded when it is first asked for and unloaded when it has been idle or its
// memory is needed. Each model has an ApiHandler of its own; this one finds it, loads it and keeps it while an answer is under way.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/api.h"

namespace isotope::serve {

/// A model that is in memory; destruction frees it.
class ServedModel {
 public:
  virtual ~ServedModel() = default;
  virtual Frontend& front() = 0;
};

struct ModelSpec {
  std::vector<std::string> names;   ///< that requests may use; the first one is shown
  std::string path;
  size_t bytes = 0;                 ///< of memory that it needs at least
  bool pinned = false;              ///< loaded at start, never unloaded
  double idle_s = 0;                ///< unloaded after so many seconds without a request; 0 = never
  std::function<Result<std::unique_ptr<ServedModel>>(std::function<void(const std::string& phase)>)> open;
};

struct SwitchOptions {
  ApiOptions api;                   ///< of every model; its served names are the model's own
  std::vector<ModelSpec> models;    ///< at least one; requests without a model mean the first
  int most_loaded = 0;              ///< 0 = as many as memory holds
  bool autoload = true;             ///< else a model is loaded by POST /models/load only
  std::function<size_t()> free_bytes;  ///< memory that is left; null: not checked
};

class SwitchHandler final : public Handler {
 public:
  explicit SwitchHandler(SwitchOptions);
  ~SwitchHandler() override;

  /// Loads the first model and the pinned ones; `phase` hears how far it is. Fails with the first that cannot be loaded.
  Result<void> start(const std::function<void(const std::string&)>& phase);
  /// New generation calls are refused from now on, and nothing is loaded any more.
  void drain();
  /// Ends what runs: engines get that long to end it themselves.
  void shutdown(double drain_s);

  bool quick(const HttpCall&) const override;
  Reply handle(HttpCall&&) override;
  HttpResponse refusal(int status, const std::string& what, const std::string& remedy) const override { return home_.refusal(status, what, remedy); }
  void answered(std::string_view method, std::string_view path, int status, double seconds) override { home_.answered(method, path, status, seconds); }

 private:
  enum class State : uint8_t { unloaded, loading, loaded };
  struct Ticket;
  struct Entry;
  class Waiting;
  class Leased;
  using Clock = std::chrono::steady_clock;

  Entry* find(const std::string& name);
  bool started() const;
  Result<Entry*> wanted(const HttpCall&);
  Reply routed(HttpCall&);
  Reply models(const HttpCall&);
  Reply change(HttpCall&, bool load);
  Reply metrics();
  Reply load_sum(HttpCall&);
  Reply response(HttpCall&);
  Json card(Entry&, const std::string& name);
  /// The model's own answer, now or when it has been loaded.
  Reply answer(Entry&, HttpCall&&);
  Reply lease(Entry&, HttpCall&&);
  void release(Entry&);

  // ---- the loader's thread ------------------------------------------------------------------------------------------------------
  void run();
  void load(Entry&, const std::function<void(const std::string&)>& phase = {});
  Result<std::unique_ptr<ServedModel>> open(Entry&, const std::function<void(const std::string&)>& phase);
  Result<void> make_room(const Entry&);
  Entry* idlest();
  void unload(Entry&);
  void unload_idle();
  bool watches_idle() const;

  SwitchOptions options_;
  ApiHandler home_;                             ///< what no model is needed for
  std::vector<std::unique_ptr<Entry>> entries_;
  mutable std::mutex mutex_;                    ///< of the entries' states and leases
  std::condition_variable work_;
  std::deque<Entry*> to_load_, to_unload_;
  bool stopping_ = false, started_ = false;
  std::thread thread_;
};

/// The string that a JSON object's member of that name holds at the top level; the last one counts. Nothing when there is none. The text need not be valid.
std::optional<std::string> top_level_string(std::string_view json, std::string_view name);
/// Several servers' Prometheus texts as one: each family once, each series once.
std::string joined_metrics(const std::vector<std::string>& texts);

}  // namespace isotope::serve
