#include <array>
#include <span>

#include "serve/anthropic.h"
#include "serve/api.h"
#include "serve/openapi.h"

namespace isotope::serve {

struct ApiHandler::Route {
  const char* method;
  const char* path;       ///< "/*" at the end: everything below; "/:" at the end: one more segment
  int flags;
  Reply (ApiHandler::*run)(HttpCall&);
  const char *summary = "", *request = "", *response = "";   ///< for /openapi.json; "": not in it; no body; any object
};

namespace {

enum : int {
  kOpen = 1,       ///< no API key
  kQuick = 2,      ///< answered on the network thread
  kNeedsModel = 4, ///< 503 while loading
};

bool matches(std::string_view pattern, std::string_view path) {
  const bool below = pattern.ends_with("/*"), segment = pattern.ends_with("/:");
  if (!below && !segment) return pattern == path;
  pattern.remove_suffix(1);
  return path.size() > pattern.size() && path.starts_with(pattern) && (below || path.find('/', pattern.size()) == std::string_view::npos);
}

// Paths of llama-server and vLLM that this server does not have, and what to use.
struct Absent {
  const char *path, *remedy;
};
constexpr Absent kAbsent[] = {
    {"/completion", "use /v1/completions"},
    {"/infill", "inserting text is not supported"},
    {"/slots", "use /metrics or /load"},
    {"/pooling", "use /v1/embeddings"},
    {"/classify", "classes are not supported; use /v1/score for a cross-encoder with one label"},
    {"/models/load", "this server has one model, which stays loaded; several are served with --model repeated, or --models-dir"},
    {"/models/unload", "this server has one model, which stays loaded; several are served with --model repeated, or --models-dir"},
    {"/lora-adapters", "LoRA adapters are not supported yet"},
    {"/v1/audio/transcriptions", "this server reads text only"},
};

// Paths of vLLM and ATOM that have a meaning which this server does not fulfil yet: 501 rather than 404.
constexpr Absent kReserved[] = {
    {"/v1/responses/*/input_items", "the input is not kept; a request goes on from a response with previous_response_id"},
    {"/v1/responses/*/cancel", "responses do not run in the background; close the connection"},
    {"/v1/responses/compact", "send the conversation as input, and truncation \"auto\" to have it cut"},
    {"/v1/messages/batches", "send the messages one by one, as many at a time as wanted"},
    {"/v1/messages/batches/*", "send the messages one by one, as many at a time as wanted"},
    {"/v1/load_lora_adapter", "LoRA adapters are not supported yet"},
    {"/v1/unload_lora_adapter", "LoRA adapters are not supported yet"},
    {"/start_profile", "profiles are not taken yet; /metrics and /requests say where time goes"},
    {"/stop_profile", "profiles are not taken yet; /metrics and /requests say where time goes"},
    {"/debug/mtp_stats", "there is no speculative decoding yet"},
    {"/debug/cache_stats", "use /metrics"},
    {"/debug/*", "use /metrics, /requests and /server_info"},
    {"/kv_transfer_info", "prompts are not computed apart from their answers yet"},
    {"/sleep", "the server does not sleep on request"},
    {"/wake_up", "the server does not sleep on request"},
    {"/is_sleeping", "the server does not sleep on request"},
    {"/pause", "requests are always taken; use /health to see whether the server can"},
    {"/resume", "requests are always taken"},
};

/// "/debug/*" stands for every path below it; a "*" within stands for one segment.
bool stands_for(std::string_view pattern, std::string_view path) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return path == pattern;
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  if (!path.starts_with(before) || !path.ends_with(after) || path.size() <= before.size() + after.size()) return false;
  const std::string_view name = path.substr(before.size(), path.size() - before.size() - after.size());
  return after.empty() || name.find('/') == std::string_view::npos;
}

const Absent* reserved(std::string_view path) {
  for (const Absent& r : kReserved) {
    if (stands_for(r.path, path)) return &r;
  }
  return nullptr;
}

const char* instead_of(std::string_view path) {
  for (const Absent& a : kAbsent) {
    if (path == a.path) return a.remedy;
  }
  return "the API starts at /v1";
}

}  // namespace

Reply ApiHandler::no_path(const HttpCall& call) {
  if (const Absent* absent = reserved(call.path); absent != nullptr) {
    ApiError e(Error{Code::unsupported, call.path + " is reserved", {}, absent->remedy});
    e.status = 501;
    return error_response(e);
  }
  return error_response(Error{Code::not_found, "there is no path " + shown(Json(call.path)), {}, instead_of(call.path)});
}

std::span<const ApiHandler::Route> ApiHandler::routes() {
  using A = ApiHandler;
  static constexpr auto kRoutes = std::to_array<Route>({
      {"POST", "/v1/completions", kNeedsModel, &A::completions, "continues a text", "CompletionRequest", "Completion"},
      {"POST", "/completions", kNeedsModel, &A::completions, "continues a text", "CompletionRequest", "Completion"},
      {"POST", "/v1/chat/completions", kNeedsModel, &A::chat_completions, "answers a conversation", "ChatCompletionRequest", "ChatCompletion"},
      {"POST", "/chat/completions", kNeedsModel, &A::chat_completions, "answers a conversation", "ChatCompletionRequest", "ChatCompletion"},
      {"GET", "/", kOpen | kQuick, &A::page},
      {"GET", "/page/*", kOpen | kQuick, &A::page},
      {"POST", "/v1/responses", kNeedsModel, &A::responses, "answers input items", "ResponsesRequest", "Response"},
      {"POST", "/v1/responses/input_tokens", kNeedsModel, &A::count_input, "the tokens of input items", "ResponsesRequest", "TokenCount"},
      {"GET", "/v1/responses/:", kNeedsModel, &A::response, "a response that is kept", "", "Response"},
      {"DELETE", "/v1/responses/:", kNeedsModel, &A::delete_response, "forgets a response"},
      {"POST", "/v1/messages", kNeedsModel, &A::messages, "answers a conversation in Anthropic's words", "MessagesRequest", "Message"},
      {"POST", "/v1/messages/count_tokens", kNeedsModel, &A::count_tokens, "the tokens of a conversation", "CountTokensRequest", "TokenCount"},
      {"POST", "/v1/embeddings", kNeedsModel, &A::embeddings, "texts to vectors", "EmbeddingRequest", "Embeddings"},
      {"POST", "/embeddings", kNeedsModel, &A::embeddings, "texts to vectors", "EmbeddingRequest", "Embeddings"},
      {"POST", "/embedding", kNeedsModel, &A::embeddings, "texts to vectors", "EmbeddingRequest", "Embeddings"},
      {"POST", "/v1/rerank", kNeedsModel, &A::rerank, "documents by their relevance to a query", "RerankRequest", "Reranking"},
      {"POST", "/rerank", kNeedsModel, &A::rerank, "documents by their relevance to a query", "RerankRequest", "Reranking"},
      {"POST", "/v2/rerank", kNeedsModel, &A::rerank, "documents by their relevance to a query", "RerankRequest", "Reranking"},
      {"POST", "/reranking", kNeedsModel, &A::rerank, "documents by their relevance to a query", "RerankRequest", "Reranking"},
      {"POST", "/v1/reranking", kNeedsModel, &A::rerank, "documents by their relevance to a query", "RerankRequest", "Reranking"},
      {"POST", "/v1/score", kNeedsModel, &A::score, "how well pairs of texts go together", "ScoreRequest", "Scores"},
      {"POST", "/score", kNeedsModel, &A::score, "how well pairs of texts go together", "ScoreRequest", "Scores"},
      {"GET", "/v1/models", kQuick | kNeedsModel, &A::models, "the model's names", "", "Models"},
      {"GET", "/models", kQuick | kNeedsModel, &A::models, "the model's names", "", "Models"},
      {"GET", "/v1/models/*", kQuick | kNeedsModel, &A::model, "one name", "", "Model"},
      {"POST", "/tokenize", kNeedsModel, &A::tokenize, "text or messages to token ids", "TokenizeRequest", "Tokens"},
      {"POST", "/v1/tokenize", kNeedsModel, &A::tokenize, "text or messages to token ids", "TokenizeRequest", "Tokens"},
      {"POST", "/detokenize", kNeedsModel, &A::detokenize, "token ids to text", "DetokenizeRequest", "Prompt"},
      {"POST", "/v1/detokenize", kNeedsModel, &A::detokenize, "token ids to text", "DetokenizeRequest", "Prompt"},
      {"GET", "/tokenizer_info", kNeedsModel, &A::tokenizer_info, "what the tokenizer's files say"},
      {"GET", "/v1/tokenizer_info", kNeedsModel, &A::tokenizer_info, "what the tokenizer's files say"},
      {"POST", "/apply-template", kNeedsModel, &A::apply_template, "messages to the text that the model reads", "TemplateRequest", "Prompt"},
      {"POST", "/apply_template", kNeedsModel, &A::apply_template, "messages to the text that the model reads", "TemplateRequest", "Prompt"},
      {"GET", "/health", kOpen | kQuick, &A::health, "whether the server works"},
      {"GET", "/v1/health", kOpen | kQuick, &A::health, "whether the server works"},
      {"GET", "/ping", kOpen | kQuick, &A::ping, "whether the server works"},
      {"POST", "/ping", kOpen | kQuick, &A::ping, "whether the server works"},
      {"GET", "/openapi.json", kOpen, &A::openapi, "this document"},
      {"GET", "/version", kOpen | kQuick, &A::version, "the program's version", "", "Version"},
      {"GET", "/load", kOpen | kQuick, &A::load, "calls under way", "", "Load"},
      {"GET", "/metrics", kOpen, &A::metrics, "Prometheus metrics", "", "text"},
      {"GET", "/config", 0, &A::config, "settings with their sources"},
      {"GET", "/server_info", kQuick | kNeedsModel, &A::server_info, "the model and the engine"},
      {"GET", "/props", kNeedsModel, &A::props, "llama-server's properties"},
      {"GET", "/kv_event_sources", kQuick | kNeedsModel, &A::kv_event_sources, "where KV events are published"},
      {"GET", "/debug/gc_census", 0, &A::gc_census, "what lives in the process"},
      {"GET", "/requests", kNeedsModel, &A::requests, "the latest requests"},
      {"GET", "/requests/*", kNeedsModel, &A::request, "what shaped a request"},
      {"POST", "/reset_prefix_cache", kNeedsModel, &A::reset_prefix_cache, "empties the prefix cache"},
  });
  return kRoutes;
}

const ApiHandler::Route* ApiHandler::find_route(std::string_view method, std::string_view path, std::string& methods) {
  methods.clear();
  for (const Route& r : routes()) {
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

bool ApiHandler::needs_model(const HttpCall& call) const {
  std::string methods;
  const Route* r = find_route(call.method, call.path, methods);
  return r != nullptr && (r->flags & kNeedsModel) != 0;
}

Reply ApiHandler::handle(HttpCall&& call) {
  const bool messages = call.path.starts_with("/v1/messages");
  Reply reply = routed(call);
  return messages ? in_messages_shape(std::move(reply)) : std::move(reply);
}

Reply ApiHandler::routed(HttpCall& call) {
  std::string methods;
  const Route* r = find_route(call.method, call.path, methods);
  // "/v1/responses/compact" looks like the name of a response.
  if (const Absent* absent = reserved(call.path); r == nullptr && absent != nullptr && call.path == absent->path) return no_path(call);
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

Reply ApiHandler::openapi(HttpCall&) {
  std::vector<PathDoc> paths;
  for (const Route& r : routes()) {
    if (*r.summary != 0) paths.push_back({.method = r.method, .path = r.path, .summary = r.summary, .request = r.request, .response = r.response});
  }
  std::vector<std::string> models = options_.served_names;
  if (models.empty() && front() != nullptr) models.push_back(model_id());
  // Some hundred kilobytes that change with the models' names only.
  const std::lock_guard lock(openapi_mutex_);
  if (openapi_text_.empty() || models != openapi_models_) {
    openapi_text_ = dump(openapi_document(options_.version, paths, models, !options_.api_keys.empty()));
    openapi_models_ = std::move(models);
  }
  return HttpResponse{.body = openapi_text_};
}

void ApiHandler::answered(std::string_view method, std::string_view path, int status, double seconds) {
  std::string methods;
  const Route* r = find_route(method, path, methods);
  metrics_.request(r != nullptr ? method : "other", r != nullptr ? std::string_view(r->path) : std::string_view("other"), status, seconds);
}

}  // namespace isotope::serve
