// What the server says about itself: models, health, version, metrics, settings.
#include <fmt/format.h>

#include "serve/api.h"
#include "serve/heap_routes.h"
#include "telemetry/process.h"

namespace isotope::serve {

Json ApiHandler::model_card(const std::string& name) const {
  const ModelInfo& info = front()->engine().info();
  Json permission = {{"id", "modelperm-" + name}, {"object", "model_permission"}, {"created", created_},
                     {"allow_create_engine", false}, {"allow_sampling", true}, {"allow_logprobs", true},
                     {"allow_search_indices", false}, {"allow_view", true}, {"allow_fine_tuning", false},
                     {"organization", "*"}, {"group", nullptr}, {"is_blocking", false}};
  Json meta = {{"architecture", info.architecture}, {"n_vocab", info.vocab}, {"n_ctx_train", info.context_length},
               {"n_embd", info.hidden}, {"n_params", info.parameters}, {"size", info.weight_bytes}, {"file_type", info.file_type}};
  return {{"id", name}, {"object", "model"}, {"created", created_}, {"owned_by", "isotope"}, {"root", info.path}, {"parent", nullptr},
          {"max_model_len", info.max_model_len}, {"permission", Json::array({std::move(permission)})}, {"meta", std::move(meta)}};
}

Reply ApiHandler::models(HttpCall&) {
  Json data = Json::array();
  if (options_.served_names.empty()) data.push_back(model_card(model_id()));
  for (const std::string& name : options_.served_names) data.push_back(model_card(name));
  return json_response({{"object", "list"}, {"data", std::move(data)}});
}

Reply ApiHandler::model(HttpCall& call) {
  const std::string name = call.path.substr(std::string_view("/v1/models/").size());
  auto found = check_model({{"model", name}});
  if (!found) return error_response(found.error());
  return json_response(model_card(name));
}

Reply ApiHandler::health(HttpCall&) {
  const Frontend* f = front();
  if (f == nullptr) {
    const std::lock_guard lock(phase_mutex_);
    Json body = error_body(Error{Code::unavailable, "Loading model", {}, "wait"});
    body["status"] = "loading";
    body["phase"] = phase_;
    return json_response(body, 503);
  }
  const EngineStats s = f->engine().stats();
  const bool stalled = options_.stall_seconds > 0 && stalled_for(s.last_step_age_s) > options_.stall_seconds;
  const char* status = stalled ? "stalled" : draining_ ? "draining" : "ok";
  const Json body = {{"status", status}, {"last_step_age_s", s.last_step_age_s}, {"running", s.running}, {"waiting", s.waiting}};
  return json_response(body, stalled || draining_ ? 503 : 200);
}

Reply ApiHandler::ping(HttpCall& call) { return health(call); }

Reply ApiHandler::version(HttpCall&) { return json_response({{"version", options_.version}}); }

Reply ApiHandler::load(HttpCall&) { return json_response({{"server_load", metrics_.running()}}); }

Reply ApiHandler::metrics(HttpCall&) {
  const Frontend* f = front();
  HttpResponse r{.content_type = "text/plain; version=0.0.4; charset=utf-8"};
  if (f != nullptr) r.body = f->engine().metrics();
  if (!r.body.empty() && r.body.back() != '\n') r.body += '\n';
  r.body += metrics_.prometheus(f != nullptr ? model_id() : "");
  if (f != nullptr) r.body += f->tokenize_metrics() + f->grammar_metrics();
  r.body += heap_metrics() + telemetry::process_metrics();
  return r;
}

Reply ApiHandler::config(HttpCall&) { return json_response(options_.config ? options_.config() : Json::object()); }

Reply ApiHandler::server_info(HttpCall&) {
  const ModelInfo& info = front()->engine().info();
  const EngineStats s = front()->engine().stats();
  return json_response({{"model_id", info.path},
                        {"served_model_name", model_id()},
                        {"tp_size", 1},
                        {"dp_size", s.engines},
                        {"version", options_.version},
                        {"architecture", info.architecture},
                        {"file_type", info.file_type},
                        {"parameters", info.parameters},
                        {"weight_bytes", info.weight_bytes},
                        {"max_model_len", info.max_model_len},
                        {"kv_bytes_per_token", info.kv_bytes_per_token},
                        {"kv_blocks", {{"total", s.blocks_total}, {"free", s.blocks_free}, {"evictable", s.blocks_evictable}}},
                        {"system_fingerprint", info.fingerprint},
                        {"sampling_defaults", front()->defaults().to_json()}});
}

Reply ApiHandler::props(HttpCall&) {
  const ModelInfo& info = front()->engine().info();
  const Json& special = front()->special_tokens();
  return json_response({{"default_generation_settings", {{"n_ctx", info.max_model_len}, {"params", front()->defaults().to_json()}}},
                        {"total_slots", 1},
                        {"model_alias", model_id()},
                        {"model_path", info.path},
                        {"modalities", {{"vision", false}, {"audio", false}}},
                        {"chat_template", front()->chat_template_source()},
                        {"bos_token", special.value("bos_token", "")},
                        {"eos_token", special.value("eos_token", "")},
                        {"build_info", "isotope " + options_.version}});
}

// vLLM's discovery: one entry for each data-parallel rank, in the words of its own configuration.
Reply ApiHandler::kv_event_sources(HttpCall&) {
  Json out = Json::object();
  for (const KvEventSource& s : front()->engine().kv_event_sources()) {
    out[std::to_string(s.rank)] = {{"enable_kv_cache_events", true},
                                   {"publisher", s.publisher},
                                   {"endpoint", s.endpoint},
                                   {"replay_endpoint", s.replay_endpoint.empty() ? Json(nullptr) : Json(s.replay_endpoint)},
                                   {"buffer_steps", s.history},
                                   {"hwm", s.hwm},
                                   {"max_queue_size", s.queue},
                                   {"topic", s.topic}};
  }
  return json_response(out);
}

Reply ApiHandler::reset_prefix_cache(HttpCall&) {
  auto done = front()->engine().reset_prefix_cache();
  if (!done) return error_response(done.error());
  return json_response({{"status", "success"}});
}

}  // namespace isotope::serve
