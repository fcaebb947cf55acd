// isotope bench serve: the speed of a running server, this one or another with /v1/completions, under requests of fixed lengths. Flags and JSON
// keys are those of vLLM's serving benchmark.
#include "bench_serve.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <thread>

#include "bench_serve_client.h"
#include "bench_serve_prompts.h"
#include "bench_serve_stream.h"
#include "flags.h"

namespace isotope::app {
namespace {

using serve::Json;

struct Options {
  std::string base_url = "http://127.0.0.1:8000", host, endpoint = "/v1/completions", backend = "openai", model, api_key, extra_body, result_file;
  int port = 0;
  int64_t concurrency = 8, output = 64, warmups = 0;
  PromptPlan prompts;
  double timeout_s = 600, wait_s = 0;
  bool json = false, detailed = false, heed_eos = false;
};

std::string local_time() {
  const std::time_t t = std::time(nullptr);
  std::tm tm{};
  localtime_r(&t, &tm);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &tm);
  return text;
}

/// One line on a terminal, rewritten as it goes; nothing elsewhere.
void show(const Progress& p) {
  static const bool terminal = isatty(STDERR_FILENO);
  if (!terminal) return;
  constexpr size_t kWidth = 30;
  const size_t full = p.all ? kWidth * p.ended / p.all : 0;
  fmt::print(stderr, "\r\033[K[{}{}] {}/{}  {} running  {:.0f} events/s", std::string(full, '#'), std::string(kWidth - full, '.'), p.ended, p.all, p.running,
             p.seconds > 0 ? double(p.events) / p.seconds : 0);
  if (p.ended == p.all || p.running == 0) std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

Result<LoadOptions> load_options(const Options& o, const levers::Levers& levers) {
  LoadOptions load{.endpoint = o.endpoint, .api_key = o.api_key.empty() ? levers.program().client_api_key : o.api_key, .concurrency = o.concurrency, .timeout_s = o.timeout_s};
  std::string url = o.base_url;
  if (!o.host.empty() || o.port > 0) url = fmt::format("{}:{}", o.host.empty() ? "127.0.0.1" : o.host, o.port > 0 ? o.port : 8000);
  ISO_TRY(load.target, parse_target(url));
  for (const std::string* s : {&load.endpoint, &load.api_key})
    if (s->find_first_of("\r\n ") != std::string::npos) return fail(Code::invalid_argument, "a space or line end cannot be sent", s == &load.endpoint ? "--endpoint" : "the API key", "remove it");
  if (!load.endpoint.starts_with('/')) load.endpoint = "/" + load.endpoint;
  return load;
}

/// Waits until /health says 200.
Result<void> wait_ready(const LoadOptions& load, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const auto answer = http_get(load, "/health", std::max(1.0, std::min(seconds, 10.0)));
    if (answer && answer->status == 200) return {};
    if (std::chrono::steady_clock::now() >= end) {
      if (!answer) return tl::unexpected(answer.error());
      return fail(Code::unavailable, fmt::format("/health still answers {} after {:g} s", answer->status, seconds), load.target.url(), "wait longer with --wait");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

/// The first model that the server lists.
Result<std::string> served_model(const LoadOptions& load) {
  const std::string where = load.target.url() + "/v1/models", remedy = "name the model with --model";
  ISO_TRY(const HttpAnswer answer, http_get(load, "/v1/models", 30));
  if (answer.status != 200) return fail(Code::unavailable, fmt::format("HTTP {}: {}", answer.status, error_message(answer.body)), where, remedy);
  const auto json = serve::parse_json(answer.body);
  if (!json || !json->is_object() || !json->contains("data")) return fail(Code::unavailable, "the answer lists no models", where, remedy);
  const Json& data = (*json)["data"];
  if (!data.is_array() || data.empty() || !data[0].is_object() || !data[0].contains("id") || !data[0]["id"].is_string())
    return fail(Code::unavailable, "the answer lists no models", where, remedy);
  return data[0]["id"].get<std::string>();
}

Result<std::vector<std::string>> bodies(const Options& o, const std::string& model, PromptPlan plan) {
  Json extra = Json::object();
  if (!o.extra_body.empty()) {
    const auto given = serve::parse_json(o.extra_body);
    if (!given || !given->is_object()) return fail(Code::invalid_argument, "'" + serve::shortened(o.extra_body) + "' is no JSON object", "--extra-body", "give {\"field\": value}");
    extra = *given;
  }
  ISO_TRY(auto prompts, make_prompts(plan));
  std::vector<std::string> out;
  for (Json& prompt : prompts) {
    Json body = {{"model", model},        {"prompt", std::move(prompt)},      {"max_tokens", o.output}, {"temperature", 0},
                 {"ignore_eos", !o.heed_eos}, {"stream", true}, {"stream_options", {{"include_usage", true}}}};
    body.update(extra);
    out.push_back(serve::dump(body));
  }
  return out;
}

Result<bool> warm_up(const Options& o, const LoadOptions& load, const std::string& model) {
  PromptPlan plan = o.prompts;
  plan.count = o.warmups;
  plan.seed ^= 0x5741524d;  // other prompts than the measured ones, so that no cache has them
  ISO_TRY(const auto warm, bodies(o, model, plan));
  return !run_load(load, warm, [](const Progress&) {}).interrupted;
}

Result<int> run(const Options& o, const Context& context) {
  ISO_TRY(const levers::Levers levers, resolve_levers(context));
  ISO_TRY(const LoadOptions load, load_options(o, levers));
  if (o.wait_s > 0) ISO_CHECK_OK(wait_ready(load, o.wait_s));
  ServeRun r{.backend = o.backend, .model = o.model, .time = local_time(), .concurrency = o.concurrency, .asked_output = o.output};
  if (r.model.empty()) {
    ISO_TRY(r.model, served_model(load));
  }
  ISO_TRY(const auto requests, bodies(o, r.model, o.prompts));
  if (o.warmups > 0) {
    ISO_TRY(const bool done, warm_up(o, load, r.model));
    if (!done) return 130;
  }
  LoadResult result = run_load(load, requests, show);
  r.duration = result.duration;
  r.interrupted = result.interrupted;
  r.records = std::move(result.records);
  for (RequestRecord& record : r.records)
    if (record.input == 0) record.input = o.prompts.prefix + o.prompts.input;  // a server that counts nothing got what was sent
  const std::string json = serve_json(r, o.detailed).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fputs((o.json ? json : serve_table(r)).c_str(), stdout);
  if (!o.result_file.empty() && !(std::ofstream(o.result_file) << json).flush())
    return fail(Code::unavailable, "cannot write '" + o.result_file + "'", "--save-result", "name a file in a folder that exists");
  bool failed = false;
  for (const RequestRecord& record : r.records) failed = failed || !record.completed();
  for (const std::string& warning : serve_warnings(r)) fmt::print(stderr, "isotope: {}\n", warning);
  return r.interrupted ? 130 : failed ? 1 : 0;
}

void add_server_flags(CLI::App& sub, Options& o) {
  sub.add_option(spellings("base-url", "--url"), o.base_url, "the server")->capture_default_str();
  sub.add_option("--host", o.host, "the server's host, instead of --base-url");
  sub.add_option("--port", o.port, "its port")->check(CLI::Range(1, 65535));
  sub.add_option("--endpoint", o.endpoint, "path of the completions")->capture_default_str();
  sub.add_option("-m,--model", o.model, "the model's name there (default: the first that the server lists)");
  sub.add_option("--backend", o.backend, "name of the server in the report")->capture_default_str();
  sub.add_option(spellings("api-key"), o.api_key, "key to send; also OPENAI_API_KEY");
  sub.add_option("--wait,--ready-check-timeout-sec", o.wait_s, "seconds to wait until /health says that the server is ready")->check(CLI::Range(0.0, 86400.0))->capture_default_str();
  sub.add_option("--timeout", o.timeout_s, "seconds without a byte after which a request is given up")->check(CLI::Range(0.01, 86400.0))->capture_default_str();
}

void add_load_flags(CLI::App& sub, Options& o) {
  const auto size = CLI::Range(int64_t{0}, int64_t{1} << 24);
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 24);
  sub.add_option(spellings("num-prompts", "-n"), o.prompts.count, "requests")->check(positive)->capture_default_str();
  sub.add_option(spellings("max-concurrency", "-c"), o.concurrency, "requests at a time")->check(CLI::Range(int64_t{1}, int64_t{1} << 16))->capture_default_str();
  sub.add_option(spellings("random-input-len", "--input-len"), o.prompts.input, "tokens of each prompt that are its own")->check(size)->capture_default_str();
  sub.add_option(spellings("random-output-len", "--output-len"), o.output, "tokens of each answer")->check(positive)->capture_default_str();
  sub.add_option(spellings("random-prefix-len", "--prefix-len"), o.prompts.prefix, "tokens that all prompts begin with")->check(size)->capture_default_str();
  sub.add_option(spellings("num-warmups"), o.warmups, "requests before, which are not counted")->check(size)->capture_default_str();
  sub.add_option("--seed", o.prompts.seed, "another seed gives other prompts")->capture_default_str();
  sub.add_option(spellings("token-range"), o.prompts.range, "FIRST,END of the token ids that prompts are drawn from")->delimiter(',')->expected(2)->capture_default_str();
  sub.add_flag("--text", o.prompts.text, "send words, about one token each, instead of token ids");
  sub.add_flag("--no-ignore-eos", o.heed_eos, "answers may end early");
  sub.add_option(spellings("extra-body"), o.extra_body, "JSON object of fields that every request gets");
}

}  // namespace

void add_bench_serve(CLI::App& bench, Context& context) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = bench.add_subcommand("serve", "speed of a running server under requests of fixed lengths: greedy, streamed, without an early end");
  add_server_flags(*sub, *o);
  add_load_flags(*sub, *o);
  sub->add_flag("--json", o->json, "JSON with the key names of vLLM's serving benchmark");
  sub->add_flag("--save-detailed", o->detailed, "the JSON tells every request: lengths, times, texts, errors");
  sub->add_option(spellings("save-result"), o->result_file, "write the JSON to this file as well");
  sub->callback([o, &context] {
    context.run = [o, &context] {
      const auto status = run(*o, context);
      return status ? *status : report(status.error());
    };
  });
}

}  // namespace isotope::app
