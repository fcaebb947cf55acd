// The HTTP API: OpenAI's paths, vLLM's and ATOM's extras, llama-server's spellings. One row for each path in routes.cc.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "serve/answer.h"
#include "serve/call.h"
#include "serve/fields.h"
#include "serve/frontend.h"
#include "serve/http_metrics.h"
#include "serve/http_types.h"
#include "serve/pool_call.h"
#include "serve/responses.h"

namespace isotope::serve {

struct ApiOptions {
  std::vector<std::string> served_names;        ///< the first one is the model's id in answers; empty: the model's own name
  std::vector<std::string> api_keys;            ///< empty: no key is asked for
  std::string version;
  bool page = true;                             ///< the chat page at /
  std::function<Json()> config;                 ///< what GET /config shows: levers and flags with their sources
  size_t mailbox_bytes = 4 << 20;
  double stall_seconds = 600;                   ///< /health says 503 when work waits and no step ended for that long; 0 = never
  CallLimits limits;
  std::function<void(const Json&)> request_log; ///< one object for each finished generation call; may be null
};

class ApiHandler final : public Handler {
 public:
  explicit ApiHandler(ApiOptions);

  /// Until ready() the model is loading: /health says 503 with this phase.
  void loading(const std::string& phase);
  /// The front end must outlive the last request.
  void ready(Frontend&);
  /// The front end is about to go. REQUIRES: no call is under way that uses it.
  void unready();
  /// Whether the call's path exists and is the model's business.
  bool needs_model(const HttpCall&) const;
  /// The refusal of a call without a valid key.
  std::optional<HttpResponse> check_key(const HttpCall&) const;
  Json model_card(const std::string& name) const;
  /// From now on new generation calls are refused with 503.
  void drain();

  bool quick(const HttpCall&) const override;
  Reply handle(HttpCall&&) override;
  HttpResponse refusal(int status, const std::string& what, const std::string& remedy) const override;
  void answered(std::string_view method, std::string_view path, int status, double seconds) override;

  // One function for each row of the route table.
  Reply completions(HttpCall&);
  Reply chat_completions(HttpCall&);
  Reply page(HttpCall&);
  Reply responses(HttpCall&);
  Reply response(HttpCall&);
  Reply delete_response(HttpCall&);
  Reply count_input(HttpCall&);
  Reply messages(HttpCall&);
  Reply count_tokens(HttpCall&);
  Reply embeddings(HttpCall&);
  Reply rerank(HttpCall&);
  Reply score(HttpCall&);
  Reply openapi(HttpCall&);
  Reply models(HttpCall&);
  Reply model(HttpCall&);
  Reply tokenize(HttpCall&);
  Reply detokenize(HttpCall&);
  Reply tokenizer_info(HttpCall&);
  Reply apply_template(HttpCall&);
  Reply health(HttpCall&);
  Reply ping(HttpCall&);
  Reply version(HttpCall&);
  Reply load(HttpCall&);
  Reply metrics(HttpCall&);
  Reply config(HttpCall&);
  Reply server_info(HttpCall&);
  Reply props(HttpCall&);
  Reply reset_prefix_cache(HttpCall&);
  Reply kv_event_sources(HttpCall&);
  Reply gc_census(HttpCall&);
  Reply requests(HttpCall&);
  Reply request(HttpCall&);
  /// The body of a request as a JSON object; errors say what is wrong with it or its headers.
  Api<Json> body_of(const HttpCall&) const;

 private:
  struct Route;
  static std::span<const Route> routes();
  Reply routed(HttpCall&);
  /// Null for a path that is unknown or has no such method; `methods` then lists those it has: "GET, POST", or "".
  static Reply no_path(const HttpCall&);
  static const Route* find_route(std::string_view method, std::string_view path, std::string& methods);
  bool authorized(const HttpCall&) const;
  HttpResponse unauthorized() const;
  static std::string_view key_of(const HttpCall&);
  Frontend* front() const { return front_.load(std::memory_order_acquire); }
  const std::string& model_id() const;
  /// The served name that the request means: the one it names, or the first. Fails for any other name.
  Result<std::string> check_model(const Json& body) const;
  /// How an endpoint's calls are read and answered.
  struct Endpoint {
    const char* name;                                        ///< in the log
    const char* id_prefix;
    std::function<Api<Call>(const Json& body)> parse;
    WriterFactory writer = nullptr;
    bool own_id = false;                                     ///< the client's request id does not name the answer
  };
  Reply generate(HttpCall&, Endpoint);
  template <class ChatOf>
  Reply count(HttpCall&, ChatOf chat_of, Json more);
  Reply pooled(HttpCall&, const char* id_prefix, Api<PoolCall> (*parse)(const Json& body, Frontend&, PoolNames));
  void pool_started();
  void pool_ended();
  void call_started();
  void call_ended(const Call&, const Job&, Outcome, const char* endpoint, double seconds);
  double stalled_for(double last_step_age) const;

  ApiOptions options_;
  std::atomic<Frontend*> front_{nullptr};
  std::atomic<bool> draining_{false};
  mutable std::mutex phase_mutex_;
  std::string phase_ = "starting";
  HttpMetrics metrics_;
  ResponseStore responses_;
  std::mutex openapi_mutex_;
  std::string openapi_text_;                     ///< made for these models
  std::vector<std::string> openapi_models_;
  int64_t created_;
  mutable std::mutex busy_mutex_;
  int64_t busy_calls_ = 0;
  std::chrono::steady_clock::time_point busy_since_;   ///< when the first of the calls now under way began
};

}  // namespace isotope::serve
