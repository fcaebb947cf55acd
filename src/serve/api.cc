#include "serve/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/hash.h"
#include "base/heap_keeper.h"
#include "serve/http_text.h"
#include "serve/route_headers.h"

namespace isotope::serve {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// Takes as long for a wrong key as for a right one of the same length.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) difference = static_cast<unsigned char>(difference | (a[i] ^ (b.empty() ? 'x' : b[i % b.size()])));
  return difference == 0;
}

// "application/json; charset=utf-16" → "utf-16"; "" when there is none.
std::string charset_of(std::string_view type) {
  const std::string text = lower(type);
  const size_t at = text.find("charset=");
  if (at == std::string::npos) return {};
  std::string name = text.substr(at + 8, text.find(';', at) - at - 8);
  std::erase_if(name, [](char c) { return c == '"' || c == ' '; });
  return name;
}

bool json_content(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  const std::string name = lower(type);
  return name.empty() || name == "application/json" || name == "text/json" || name.ends_with("+json");
}

}  // namespace

ApiHandler::ApiHandler(ApiOptions options) : options_(std::move(options)), created_(std::time(nullptr)) {}

void ApiHandler::loading(const std::string& phase) {
  const std::lock_guard lock(phase_mutex_);
  phase_ = phase;
}

void ApiHandler::ready(Frontend& front) { front_.store(&front, std::memory_order_release); }
void ApiHandler::unready() { front_.store(nullptr, std::memory_order_release); }
void ApiHandler::drain() { draining_ = true; }

const std::string& ApiHandler::model_id() const {
  return options_.served_names.empty() ? front()->engine().info().name : options_.served_names.front();
}

std::string_view ApiHandler::key_of(const HttpCall& call) {
  const std::string_view bearer = call.header("authorization");
  if (bearer.size() > 7 && (bearer.starts_with("Bearer ") || bearer.starts_with("bearer "))) return bearer.substr(7);
  return call.header("x-api-key");
}

bool ApiHandler::authorized(const HttpCall& call) const {
  if (options_.api_keys.empty()) return true;
  const std::string_view key = key_of(call);
  bool found = false;
  for (const std::string& k : options_.api_keys) found |= !k.empty() && same_secret(key, k);
  return found;
}

std::optional<HttpResponse> ApiHandler::check_key(const HttpCall& call) const {
  return authorized(call) ? std::nullopt : std::optional(unauthorized());
}

HttpResponse ApiHandler::unauthorized() const {
  HttpResponse response = refusal(401, "the request has no valid API key", "send the header Authorization: Bearer KEY");
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

HttpResponse ApiHandler::refusal(int status, const std::string& what, const std::string& remedy) const {
  ApiError e(Error{Code::invalid_argument, what, {}, remedy});
  e.status = status;
  return error_response(e);
}

Api<Json> ApiHandler::body_of(const HttpCall& call) const {
  const auto unreadable = [](const char* what, const std::string& is, const char* header, const char* remedy) {
    ApiError e(Error{Code::invalid_argument, std::string("the body's ") + what + " is " + shown(Json(is)), header, remedy});
    e.status = 415;
    return tl::unexpected(std::move(e));
  };
  const std::string encoding = lower(call.header("content-encoding"));
  if (!encoding.empty() && encoding != "identity") return unreadable("encoding", encoding, "header Content-Encoding", "send the body as it is");
  const std::string charset = charset_of(call.header("content-type"));
  if (!charset.empty() && charset != "utf-8" && charset != "utf8" && charset != "us-ascii") {
    return unreadable("charset", charset, "header Content-Type", "send UTF-8");
  }
  const std::string_view type = call.header("content-type");
  if (!json_content(type)) {
    return tl::unexpected(Error{Code::invalid_argument, "the body's content type is " + shown(Json(std::string(type))), "header Content-Type",
                                "send application/json"});
  }
  ISO_TRY(auto body, parse_json(call.body));
  if (!body.is_object()) {
    return tl::unexpected(Error{Code::invalid_argument, "the body must be a JSON object, it is " + shown(body), {}, "send {\"…\": …}"});
  }
  return body;
}

Result<std::string> ApiHandler::check_model(const Json& body) const {
  ISO_TRY(const auto name, Fields(body).string("model"));
  if (!name || *name == model_id()) return model_id();
  const auto& names = options_.served_names;
  if (std::find(names.begin(), names.end(), *name) != names.end()) return *name;
  return tl::unexpected(field_error("model", "the model " + shown(Json(*name)) + " does not exist", "this server has " + shown(Json(model_id())),
                                    Code::not_found));
}

void ApiHandler::call_started() {
  metrics_.call_started();
  const std::lock_guard lock(busy_mutex_);
  if (busy_calls_++ == 0) busy_since_ = Clock::now();
}

void ApiHandler::call_ended(const Call& call, const Job& job, Outcome outcome, const char* endpoint, double seconds) {
  metrics_.call_ended(outcome == Outcome::abandoned, call.spec.n, call.spec.prompts.empty() ? 0 : call.spec.prompts[0].max_tokens);
  {
    const std::lock_guard lock(busy_mutex_);
    --busy_calls_;
  }
  base::HeapKeeper::process().run_due();
  if (!options_.request_log) return;
  const Usage u = job.usage();
  static constexpr const char* kOutcomes[] = {"completed", "failed", "abandoned"};
  options_.request_log({{"time", std::time(nullptr)},
                        {"id", call.id},
                        {"endpoint", endpoint},
                        {"stream", call.stream},
                        {"outcome", kOutcomes[size_t(outcome)]},
                        {"prompt_tokens", u.prompt_tokens},
                        {"cached_tokens", u.cached_tokens},
                        {"completion_tokens", u.completion_tokens},
                        {"seconds", seconds}});
}

// Work is under way, and neither has a step ended nor has the work only just begun.
double ApiHandler::stalled_for(double last_step_age) const {
  const std::lock_guard lock(busy_mutex_);
  return busy_calls_ == 0 ? 0 : std::min(last_step_age, seconds_since(busy_since_));
}

Reply ApiHandler::generate(HttpCall& http, Endpoint endpoint) {
  if (draining_) return error_response(Error{Code::unavailable, "the server is shutting down", {}, "send the request to another server"});
  const auto begin = Clock::now();
  Frontend& f = *front();
  if (const ModelInfo& info = f.engine().info(); !info.generates) {
    const bool scores = f.engine().pooling() && f.engine().pooling()->labels > 0;
    return error_response(Error{Code::unsupported, "the model " + shown(Json(info.name)) + " is an encoder, which writes no text", "model",
                                scores ? "use /v1/rerank or /v1/score, or serve a model that generates" : "use /v1/embeddings, or serve a model that generates"});
  }
  const text::RequestLabel label(http.header("x-request-id"));
  auto parsed = [&]() -> Api<Call> {
    ISO_TRY(const Json body, body_of(http));
    ISO_TRY(std::string name, check_model(body));
    ISO_TRY(Call parsed_call, endpoint.parse(body));
    parsed_call.model = std::move(name);
    return parsed_call;
  }();
  if (!parsed) return error_response(parsed.error());
  Call call = *std::move(parsed);
  if (auto read = read_route_headers(http, call.spec); !read) return error_response(read.error());
  std::string asked(http.header("x-request-id"));
  if (asked.empty() || asked.size() > 256) asked = random_id();
  call.id = endpoint.id_prefix + (endpoint.own_id ? random_id() : call.id.empty() ? asked : call.id);
  call.spec.label = call.id;
  call.created = std::time(nullptr);
  if (http.header("x-isotope-timings") == "1") call.timings = true;
  // Without a list of keys a key says nothing about who sent it, and the field `user` stands. The engine never sees the key itself.
  if (!options_.api_keys.empty()) call.spec.share_key = fmt::format("key:{:016x}", base::xxh64(key_of(http)));

  AnswerOptions options{.mailbox_bytes = options_.mailbox_bytes, .writer = std::move(endpoint.writer)};
  options.ended = [this, begin, name = endpoint.name](const Call& c, const Job& job, Outcome o) { call_ended(c, job, o, name, seconds_since(begin)); };
  call_started();
  auto answer = start_answer(std::move(call), f, std::move(options));
  if (answer) return *std::move(answer);
  metrics_.call_refused();
  const std::lock_guard lock(busy_mutex_);
  --busy_calls_;
  return error_response(answer.error(), f.engine().stats().retry_after_s);
}

Reply ApiHandler::completions(HttpCall& call) {
  return generate(call, {.name = "completions", .id_prefix = "cmpl-", .parse = [this](const Json& body) { return parse_completion(body, *front(), options_.limits); }});
}

Reply ApiHandler::chat_completions(HttpCall& call) {
  return generate(call, {.name = "chat.completions", .id_prefix = "chatcmpl-", .parse = [this](const Json& body) { return parse_chat(body, *front(), options_.limits); }});
}

}  // namespace isotope::serve
