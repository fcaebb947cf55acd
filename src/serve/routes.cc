#include <array>

#include "serve/api.h"

namespace isotope::serve {

struct ApiHandler::Route {
  const char* method;
  const char* path;       ///< "/*" at the end: everything below
  int flags;
  Reply (ApiHandler::*run)(HttpCall&);
};

namespace {

enum : int {
  kOpen = 1,       ///< no API key
  kQuick = 2,      ///< answered on the network thread
  kNeedsModel = 4, ///< 503 while loading
};

bool matches(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with("/*")) return pattern == path;
  pattern.remove_suffix(1);
  return path.size() > pattern.size() && path.starts_with(pattern);
}

// Paths of llama-server and vLLM that this server does not have, and what to use.
struct Absent {
  const char *path, *remedy;
};
constexpr Absent kAbsent[] = {
    {"/completion", "use /v1/completions"},
    {"/infill", "inserting text is not supported"},
    {"/slots", "use /metrics or /load"},
    {"/embedding", "embeddings are not supported"},
    {"/embeddings", "embeddings are not supported"},
    {"/v1/embeddings", "embeddings are not supported"},
    {"/pooling", "embeddings are not supported"},
    {"/rerank", "reranking is not supported"},
    {"/reranking", "reranking is not supported"},
    {"/v1/rerank", "reranking is not supported"},
    {"/score", "scoring pairs is not supported; echo with logprobs scores a text"},
    {"/lora-adapters", "LoRA adapters are not supported yet"},
    {"/v1/load_lora_adapter", "LoRA adapters are not supported yet"},
    {"/v1/responses", "use /v1/chat/completions"},
    {"/v1/messages", "use /v1/chat/completions"},
    {"/v1/audio/transcriptions", "this server reads text only"},
};

const char* instead_of(std::string_view path) {
  for (const Absent& a : kAbsent) {
    if (path == a.path) return a.remedy;
  }
  return "the API starts at /v1";
}

}  // namespace

Reply ApiHandler::no_path(const HttpCall& call) {
  return error_response(Error{Code::not_found, "there is no path " + shown(Json(call.path)), {}, instead_of(call.path)});
}

const ApiHandler::Route* ApiHandler::find_route(std::string_view method, std::string_view path, std::string& methods) {
  using A = ApiHandler;
  static constexpr auto kRoutes = std::to_array<Route>({
      {"POST", "/v1/completions", kNeedsModel, &A::completions},
      {"POST", "/completions", kNeedsModel, &A::completions},
      {"POST", "/v1/chat/completions", kNeedsModel, &A::chat_completions},
      {"POST", "/chat/completions", kNeedsModel, &A::chat_completions},
      {"GET", "/", kOpen | kQuick, &A::page},
      {"GET", "/page/*", kOpen | kQuick, &A::page},
      {"GET", "/v1/models", kQuick | kNeedsModel, &A::models},
      {"GET", "/models", kQuick | kNeedsModel, &A::models},
      {"GET", "/v1/models/*", kQuick | kNeedsModel, &A::model},
      {"POST", "/tokenize", kNeedsModel, &A::tokenize},
      {"POST", "/v1/tokenize", kNeedsModel, &A::tokenize},
      {"POST", "/detokenize", kNeedsModel, &A::detokenize},
      {"POST", "/v1/detokenize", kNeedsModel, &A::detokenize},
      {"GET", "/tokenizer_info", kNeedsModel, &A::tokenizer_info},
      {"GET", "/v1/tokenizer_info", kNeedsModel, &A::tokenizer_info},
      {"POST", "/apply-template", kNeedsModel, &A::apply_template},
      {"GET", "/health", kOpen | kQuick, &A::health},
      {"GET", "/v1/health", kOpen | kQuick, &A::health},
      {"GET", "/ping", kOpen | kQuick, &A::ping},
      {"POST", "/ping", kOpen | kQuick, &A::ping},
      {"GET", "/version", kOpen | kQuick, &A::version},
      {"GET", "/load", kOpen | kQuick, &A::load},
      {"GET", "/metrics", kOpen, &A::metrics},
      {"GET", "/config", 0, &A::config},
      {"GET", "/server_info", kQuick | kNeedsModel, &A::server_info},
      {"GET", "/props", kNeedsModel, &A::props},
      {"GET", "/kv_event_sources", kQuick | kNeedsModel, &A::kv_event_sources},
      {"GET", "/debug/gc_census", 0, &A::gc_census},
      {"GET", "/requests", kNeedsModel, &A::requests},
      {"GET", "/requests/*", kNeedsModel, &A::request},
      {"POST", "/reset_prefix_cache", kNeedsModel, &A::reset_prefix_cache},
  });
  methods.clear();
  for (const Route& r : kRoutes) {
    if (!matches(r.path, path)) continue;
    if (method == r.method) return &r;
    methods += (methods.empty() ? "" : ", ") + std::string(r.method);
  }
  return nullptr;
}

bool ApiHandler::quick(const HttpCall& call) const {
  std::string methods;
  const Route* r = find_route(call.method, call.path, methods);
  return r == nullptr || (r->flags & kQuick) != 0;
}

Reply ApiHandler::handle(HttpCall&& call) {
  std::string methods;
  const Route* r = find_route(call.method, call.path, methods);
  if (r == nullptr && !methods.empty()) {
    HttpResponse response = refusal(405, call.method + " is not allowed on " + shortened(call.path), "use " + methods);
    const bool get = methods.find("GET") != std::string::npos;
    response.headers.emplace_back("Allow", methods + (get ? ", HEAD, OPTIONS" : ", OPTIONS"));
    return response;
  }
  if (r == nullptr) return no_path(call);
  if ((r->flags & kOpen) == 0 && !authorized(call)) return unauthorized();
  if ((r->flags & kNeedsModel) != 0 && front() == nullptr) {
    const std::lock_guard lock(phase_mutex_);
    return error_response(Error{Code::unavailable, "the model is still loading: " + phase_, {}, "wait until GET /health answers 200"});
  }
  return (this->*r->run)(call);
}

void ApiHandler::answered(std::string_view method, std::string_view path, int status, double seconds) {
  std::string methods;
  const Route* r = find_route(method, path, methods);
  metrics_.request(r != nullptr ? method : "other", r != nullptr ? std::string_view(r->path) : std::string_view("other"), status, seconds);
}

}  // namespace isotope::serve
