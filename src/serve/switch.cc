#include "serve/switch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "serve/anthropic.h"
#include "serve/fields.h"
#include "serve/switch_wait.h"

namespace isotope::serve {
namespace {

ApiOptions with_names(ApiOptions o, std::vector<std::string> names) {
  o.served_names = std::move(names);
  return o;
}

std::vector<std::string> all_names(const std::vector<ModelSpec>& models) {
  std::vector<std::string> out;
  for (const ModelSpec& m : models) out.insert(out.end(), m.names.begin(), m.names.end());
  return out;
}

/// "model=b" of a query.
std::optional<std::string> query_value(const std::string& query, std::string_view name) {
  for (size_t at = 0; at <= query.size();) {
    const size_t end = std::min(query.find('&', at), query.size());
    const std::string_view part = std::string_view(query).substr(at, end - at);
    if (part.starts_with(name) && part.size() > name.size() && part[name.size()] == '=') return std::string(part.substr(name.size() + 1));
    at = end + 1;
  }
  return std::nullopt;
}

}  // namespace

SwitchHandler::SwitchHandler(SwitchOptions options) : options_(std::move(options)), home_(with_names(options_.api, all_names(options_.models))) {
  for (const ModelSpec& m : options_.models) entries_.push_back(std::make_unique<Entry>(m, with_names(options_.api, m.names)));
  thread_ = std::thread([this] { run(); });
}

SwitchHandler::~SwitchHandler() { shutdown(0); }

Result<void> SwitchHandler::start(const std::function<void(const std::string&)>& phase) {
  home_.loading("starting");
  for (const auto& e : entries_) {
    if (e != entries_.front() && !e->spec.pinned) continue;
    {
      const std::lock_guard lock(mutex_);
      e->state = State::loading;
    }
    load(*e, [&](const std::string& p) {
      const std::string text = fmt::format("{}: {}", e->spec.names.front(), p);
      home_.loading(text);
      if (phase) phase(text);
    });
    const std::lock_guard lock(mutex_);
    if (e->failed) return tl::unexpected(*e->failed);
  }
  const std::lock_guard lock(mutex_);
  started_ = true;
  return {};
}

void SwitchHandler::drain() {
  home_.drain();
  for (const auto& e : entries_) e->api.drain();
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  work_.notify_all();
}

void SwitchHandler::shutdown(double drain_s) {
  drain();
  if (thread_.joinable()) thread_.join();
  std::vector<std::thread> ends;
  for (const auto& e : entries_)
    if (e->model) ends.emplace_back([&model = *e->model, drain_s] { model.front().engine().shutdown(drain_s); });
  for (std::thread& t : ends) t.join();
}

SwitchHandler::Entry* SwitchHandler::find(const std::string& name) {
  for (const auto& e : entries_)
    if (std::find(e->spec.names.begin(), e->spec.names.end(), name) != e->spec.names.end()) return e.get();
  return nullptr;
}

Result<SwitchHandler::Entry*> SwitchHandler::wanted(const HttpCall& call) {
  auto name = call.method == "POST" ? top_level_string(call.body, "model") : std::nullopt;
  if (!name) name = query_value(call.query, "model");
  if (!name) return entries_.front().get();
  if (Entry* e = find(*name)) return e;
  std::string names;
  for (const auto& e : entries_) names += (names.empty() ? "" : ", ") + shown(Json(e->spec.names.front()));
  return tl::unexpected(field_error("model", "the model " + shown(Json(*name)) + " does not exist", "this server has " + names, Code::not_found));
}

bool SwitchHandler::quick(const HttpCall& call) const {
  // Everything that looks at a model or takes a lock for longer goes to a worker.
  return home_.quick(call) && !home_.needs_model(call);
}

Reply SwitchHandler::handle(HttpCall&& call) {
  const bool messages = call.path.starts_with("/v1/messages");
  Reply reply = routed(call);
  return messages ? in_messages_shape(std::move(reply)) : std::move(reply);
}

Reply SwitchHandler::routed(HttpCall& call) {
  const bool change_path = call.path == "/models/load" || call.path == "/models/unload", admin = change_path && call.method == "POST";
  if (change_path && !admin) {
    HttpResponse response = refusal(405, call.method + " is not allowed on " + call.path, "use POST");
    response.headers.emplace_back("Allow", "POST, OPTIONS");
    return response;
  }
  if (admin || home_.needs_model(call)) {
    if (auto refused = home_.check_key(call)) return *std::move(refused);
  }
  if (admin && started()) return change(call, call.path == "/models/load");
  if (call.method == "GET" && started() && (call.path == "/v1/models" || call.path == "/models" || call.path.starts_with("/v1/models/"))) return models(call);
  if (call.method == "GET" && call.path == "/metrics") return metrics();
  if (call.method == "GET" && call.path == "/load") return load_sum(call);
  if (call.method == "GET" && (call.path == "/health" || call.path == "/v1/health" || call.path == "/ping")) {
    const std::lock_guard lock(mutex_);
    for (const auto& e : entries_)
      if (started_ && e->state == State::loaded) return e->api.handle(std::move(call));
    // Models that nobody needs are not loaded, and the server is well.
    return started_ ? Reply(json_response({{"status", stopping_ ? "draining" : "ok"}}, stopping_ ? 503 : 200)) : home_.handle(std::move(call));
  }
  if (!home_.needs_model(call) || !started()) return home_.handle(std::move(call));
  if (call.path.starts_with("/v1/responses/") && call.method != "POST") return response(call);
  auto entry = wanted(call);
  if (!entry) return error_response(entry.error());
  return answer(**entry, std::move(call));
}

bool SwitchHandler::started() const {
  const std::lock_guard lock(mutex_);
  return started_;
}

Reply SwitchHandler::answer(Entry& e, HttpCall&& call) {
  std::unique_lock lock(mutex_);
  if (stopping_) return error_response(Error{Code::unavailable, "the server is shutting down", {}, "send the request to another server"});
  if (e.state == State::loaded && !e.unload_asked) {
    ++e.leases;
    lock.unlock();
    return lease(e, std::move(call));
  }
  if (!options_.autoload && e.state == State::unloaded) {
    return error_response(Error{Code::unavailable, "the model " + shown(Json(e.spec.names.front())) + " is not loaded", "--no-models-autoload", "load it with POST /models/load"});
  }
  auto ticket = std::make_shared<Ticket>();
  ticket->messages = call.path.starts_with("/v1/messages");
  ticket->call = std::move(call);
  e.waiting.push_back(ticket);
  if (e.state == State::unloaded) {
    e.state = State::loading;
    to_load_.push_back(&e);
    work_.notify_all();
  }
  return std::make_unique<Waiting>(std::move(ticket));
}

// The caller has counted the lease.
Reply SwitchHandler::lease(Entry& e, HttpCall&& call) {
  Reply reply = e.api.handle(std::move(call));
  auto* pending = std::get_if<std::unique_ptr<Pending>>(&reply);
  if (pending == nullptr) {
    release(e);
    return reply;
  }
  return std::make_unique<Leased>(std::move(*pending), [this, &e] { release(e); });
}

void SwitchHandler::release(Entry& e) {
  const std::lock_guard lock(mutex_);
  --e.leases;
  e.last_used = Clock::now();
  if (e.leases == 0) work_.notify_all();
}

// ---- what concerns all models ---------------------------------------------------------------------------------------------------
Json SwitchHandler::card(Entry& e, const std::string& name) {
  static constexpr const char* kStates[] = {"unloaded", "loading", "loaded"};
  Json out = e.state == State::loaded ? e.api.model_card(name) : Json{{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "isotope"}, {"root", e.spec.path}, {"parent", nullptr}};
  out["status"] = {{"value", kStates[size_t(e.state)]}, {"pinned", e.spec.pinned}};
  if (e.spec.idle_s > 0 && !e.spec.pinned) out["status"]["unloads_after_s"] = e.spec.idle_s;
  if (e.state == State::loaded) out["status"]["active"] = e.leases;
  if (e.failed && e.state == State::unloaded) out["status"]["failed"] = true, out["status"]["error"] = e.failed->message();
  return out;
}

Reply SwitchHandler::models(const HttpCall& call) {
  const std::lock_guard lock(mutex_);
  if (call.path.starts_with("/v1/models/")) {
    const std::string name = call.path.substr(std::string_view("/v1/models/").size());
    if (Entry* e = find(name)) return json_response(card(*e, name));
    return error_response(field_error("model", "the model " + shown(Json(name)) + " does not exist", "GET /v1/models lists those that do", Code::not_found));
  }
  Json data = Json::array();
  for (const auto& e : entries_)
    for (const std::string& name : e->spec.names) data.push_back(card(*e, name));
  return json_response({{"object", "list"}, {"data", std::move(data)}});
}

Reply SwitchHandler::change(HttpCall& call, bool load) {
  const auto name = [&]() -> Api<std::string> {
    ISO_TRY(const Json body, home_.body_of(call));
    for (const auto& [field, value] : body.items())
      if (field != "model") return tl::unexpected(field_error(field, "there is no field " + shown(Json(field)), "send {\"model\": name} alone"));
    ISO_TRY(const auto model, Fields(body).string("model"));
    if (!model) return tl::unexpected(field_error("model", "the request names no model", "send {\"model\": name}"));
    return *model;
  }();
  if (!name) return error_response(name.error());
  auto entry = wanted(call);
  if (!entry) return error_response(entry.error());
  Entry& e = **entry;
  const std::lock_guard lock(mutex_);
  if (stopping_) return error_response(Error{Code::unavailable, "the server is shutting down", {}, "send the request to another server"});
  if (load && e.state == State::unloaded) {
    e.state = State::loading;
    e.failed.reset();
    to_load_.push_back(&e);
  }
  if (!load && e.spec.pinned) return error_response(Error{Code::invalid_argument, "the model " + shown(Json(*name)) + " is pinned", "--pin", "start the server without pinning it"});
  if (!load && e.state == State::loading) return error_response(Error{Code::unavailable, "the model " + shown(Json(*name)) + " is being loaded", {}, "try again when it is there"});
  if (!load && e.state == State::loaded && !std::exchange(e.unload_asked, true)) to_unload_.push_back(&e);
  work_.notify_all();
  return json_response({{"success", true}, {"model", *name}, {"status", card(e, *name)["status"]}});
}

Reply SwitchHandler::metrics() {
  std::vector<std::string> texts;
  const auto add = [&](ApiHandler& api) {
    HttpCall call{.method = "GET", .path = "/metrics"};
    Reply r = api.handle(std::move(call));
    if (auto* done = std::get_if<HttpResponse>(&r)) texts.push_back(std::move(done->body));
  };
  // Models cannot go while they are asked: the lock is held, and engines answer without waiting for a step.
  const std::lock_guard lock(mutex_);
  add(home_);
  int64_t loaded = 0;
  for (const auto& e : entries_) {
    loaded += e->state == State::loaded;
    if (e->state == State::loaded) add(e->api);
  }
  texts.push_back(fmt::format("# HELP isotope:models_loaded Models in memory.\n# TYPE isotope:models_loaded gauge\nisotope:models_loaded {}\n", loaded));
  return HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = joined_metrics(texts)};
}

Reply SwitchHandler::load_sum(HttpCall&) {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& e : entries_) sum += e->leases + int64_t(e->waiting.size());
  return json_response({{"server_load", sum}});
}

// A kept response is its model's; whose it is only the models know.
Reply SwitchHandler::response(HttpCall& call) {
  for (const auto& e : entries_) {
    {
      const std::lock_guard lock(mutex_);
      if (e->state != State::loaded) continue;
      ++e->leases;
    }
    HttpCall copy = call;
    Reply r = lease(*e, std::move(copy));
    if (const auto* done = std::get_if<HttpResponse>(&r); done == nullptr || done->status != 404) return r;
  }
  return error_response(Error{Code::not_found, "there is no response " + shown(Json(call.path.substr(std::string_view("/v1/responses/").size()))), {},
                              "its model may have been unloaded since"});
}

}  // namespace isotope::serve
