// Embeddings, rerankings and scores.
#include <ctime>

#include "serve/api.h"
#include "serve/pool_call.h"

namespace isotope::serve {

Reply ApiHandler::pooled(HttpCall& http, const char* prefix, Api<PoolCall> (*parse)(const Json&, Frontend&, PoolNames)) {
  if (draining_) return error_response(Error{Code::unavailable, "the server is shutting down", {}, "send the request to another server"});
  Frontend& f = *front();
  auto call = [&]() -> Api<PoolCall> {
    ISO_TRY(const Json body, body_of(http));
    ISO_TRY(std::string name, check_model(body));
    const std::string_view asked = http.header("x-request-id");
    return parse(body, f, {.id = prefix + (asked.empty() || asked.size() > 256 ? random_id() : std::string(asked)), .model = std::move(name), .created = std::time(nullptr)});
  }();
  if (!call) return error_response(call.error());
  pool_started();
  auto answer = start_pool(*std::move(call), f.engine(), [this](bool) { pool_ended(); });
  if (answer) return *std::move(answer);
  pool_ended();
  return error_response(answer.error());
}

Reply ApiHandler::embeddings(HttpCall& call) { return pooled(call, "embd-", parse_embedding); }
Reply ApiHandler::rerank(HttpCall& call) { return pooled(call, "rerank-", parse_rerank); }
Reply ApiHandler::score(HttpCall& call) { return pooled(call, "score-", parse_score); }

void ApiHandler::pool_started() {
  const std::lock_guard lock(busy_mutex_);
  if (busy_calls_++ == 0) busy_since_ = std::chrono::steady_clock::now();
}

void ApiHandler::pool_ended() {
  const std::lock_guard lock(busy_mutex_);
  --busy_calls_;
}

}  // namespace isotope::serve
