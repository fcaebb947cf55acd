// isotope serve: the HTTP server. Flags as ATOM and vLLM spell them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "flags.h"
#include "levers/print.h"
#include "model_path.h"
#include "serve_process.h"

namespace isotope::app {
namespace {

using serve::Json;

// Accepted so that a command line written for ATOM or vLLM starts here; each that is given makes one log line.
constexpr IgnoredFlag kIgnored[] = {
    {"trust-remote-code", false, "no code is ever taken from a checkpoint"},
    {"enforce-eager", false, "plans replay with the same bits"},
    {"level", true, "there is no compiler to steer"},
    {"cudagraph-capture-sizes", true, "plans on the CPU need no buckets"},
    {"cudagraph-mode", true, "plans on the CPU need no mode"},
    {"enable-expert-parallel", false, "one rank holds all experts"},
    {"fake-eplb", false, "one rank holds all experts"},
    {"eplb-enable", false, "one rank holds all experts"},
    {"enable-eplb", false, "one rank holds all experts"},
    {"eplb-config", true, "one rank holds all experts"},
    {"enable-dp-attention", false, "one rank runs all attention"},
    {"dp-load-balance", true, "there is one data-parallel rank"},
    {"enable-tbo", true, "no communication is there to hide"},
    {"all2all-backend", true, "there is one rank"},
    {"moe-backend", true, "there is one CPU backend"},
    {"mark-trace", false, "profiler traces are marked anyway"},
    {"enable-rapidserve", false, "prefill and decode share every step"},
    {"disagg-prefill-max-num-seqs", true, "prefill and decode share every step"},
    {"disagg-constrained", false, "prefill and decode share every step"},
    {"dcp-config", true, "there is one rank"},
    {"dspark-config", true, "no drafter is configured"},
    {"scheduler-delay-factor", true, "waiting requests are admitted at once"},
    {"attn-prefill-chunk-size", true, "attention walks over constant chunks"},
    {"state-checkpoint-interval-tokens", true, "this model keeps no recurrent state"},
    {"spec-decode-acceptance-length", true, "no drafter is configured"},
    {"spec-decode-acceptance-rate", true, "no drafter is configured"},
    {"num-speculative-tokens", true, "no drafter is configured"},
    {"index-cache-dtype", true, "this model has no index cache"},
    {"torch-profiler-dir", true, "there is no torch profiler"},
    {"disable-uvicorn-access-log", false, "there is no access log but --request-log"},
    {"disable-log-requests", false, "requests are only logged with --request-log"},
    {"disable-log-stats", false, "statistics are at /metrics"},
    {"enable-auto-tool-choice", false, "tool calls are not supported yet"},
    {"tokenizer-mode", true, "there is one tokenizer for each model"},
    {"dtype", true, "weights keep the format of the file"},
    {"swap-space", true, "preempted requests are computed again"},
};

// Wishes that would change what the server does: refused by name unless they ask for what is there anyway.
struct RefusedFlag {
  const char* name;
  const char* only;   ///< the value that is fine
  const char* why;
};
constexpr RefusedFlag kRefused[] = {
    {"tensor-parallel-size", "1", "tensor parallelism is not supported yet"},
    {"pipeline-parallel-size", "1", "pipeline parallelism is not supported yet"},
    {"data-parallel-size", "1", "data parallelism is not supported yet"},
    {"prefill-context-parallel-size", "1", "context parallelism is not supported yet"},
    {"decode-context-parallel-size", "1", "context parallelism is not supported yet"},
    {"method", "none", "speculative decoding is not supported yet"},
    {"draft-model", "none", "speculative decoding is not supported yet"},
    {"load-dummy", "none", "dummy weights are not supported yet"},
    {"kv-transfer-config", "{}", "KV transfer is not supported yet"},
    {"online-quant-config", "{}", "online quantization is not supported yet"},
};
struct Flags {
  EngineFlags engine;
  ServeOptions serve;
  std::string model = "smollm2-135m";
  std::string template_kwargs, generation_config = "auto", override_generation, request_log;
  std::vector<std::string> origins;
  std::map<std::string, std::string> refused;
  std::map<std::string, std::string> ignored_values;
  std::vector<CLI::Option*> ignored;
  int port = 8000, server_port = -1;
  double body_mb = 32;
};

void add_server_flags(CLI::App& sub, Flags& f) {
  serve::HttpOptions& http = f.serve.http;
  sub.add_option("--model,model", f.model, "GGUF file, Hugging Face folder or built-in name")->capture_default_str();
  sub.add_option(spellings("served-model-name"), f.serve.api.served_names, "names that requests may use; the first one is shown (repeatable)");
  sub.add_option("--host", http.host, "address to listen on")->capture_default_str();
  sub.add_option("--port", f.port, "HTTP port; 0 takes a free one")->check(CLI::Range(0, 65535))->capture_default_str();
  sub.add_option(spellings("server-port"), f.server_port, "HTTP port as ATOM spells it: --port is then internal")->check(CLI::Range(0, 65535));
  sub.add_option(spellings("api-key"), f.serve.api.api_keys, "key that clients must send (repeatable); also ISOTOPE_API_KEY")->allow_extra_args(false);
  sub.add_option(spellings("allowed-origins"), f.origins, "origins that browsers may ask from, a JSON array or repeated; default all")
      ->allow_extra_args(false);
  sub.add_option(spellings("timeout-keep-alive"), http.keep_alive_s, "seconds before an idle connection is closed")->check(CLI::Range(0.1, 1e6))->capture_default_str();
  sub.add_option(spellings("max-body-mb"), f.body_mb, "largest request body in MiB")->check(CLI::Range(0.001, 4096.0))->capture_default_str();
  sub.add_option(spellings("max-logprobs"), f.serve.api.limits.max_logprobs, "most log-probabilities for one token")->check(CLI::Range(0, 1000))->capture_default_str();
  sub.add_option(spellings("http-threads"), http.worker_threads, "threads that parse, render templates and tokenize")->check(CLI::Range(1, 256))->capture_default_str();
  sub.add_option(spellings("shutdown-timeout"), f.serve.drain_s, "seconds that running answers get after SIGTERM")->check(CLI::Range(0.0, 86400.0))->capture_default_str();
  sub.add_option(spellings("health-stall-seconds"), f.serve.api.stall_seconds, "/health says 503 when work waits and no step ended for that long; 0 = never")
      ->check(CLI::Range(0.0, 1e9))->capture_default_str();
  sub.add_option(spellings("request-log"), f.request_log, "file that gets one JSON line for each finished call");
}

void add_model_flags(CLI::App& sub, Flags& f) {
  EngineOptions& e = f.engine.options;
  f.engine.add(sub);
  sub.add_option(spellings("max-num-seqs"), e.max_num_seqs, "sequences that run at once")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  sub.add_option(spellings("max-num-batched-tokens"), e.max_num_batched_tokens, "tokens of one step")->check(CLI::Range(int64_t{1}, int64_t{1} << 30))->capture_default_str();
  sub.add_option(spellings("long-prefill-token-threshold"), e.long_prefill_token_threshold, "most tokens of one prompt in a step; 0 = no cap")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))->capture_default_str();
  sub.add_option(spellings("max-queue"), e.max_queue, "requests that may wait before new ones get 429")->check(CLI::Range(1, 1 << 24))->capture_default_str();
  sub.add_option(spellings("preempt-every"), e.preempt_every, "test aid: preempt a sequence every N steps")->group("");
  sub.add_flag("--enable-prefix-caching,--enable_prefix_caching,!--no-enable-prefix-caching,!--no-enable_prefix_caching,!--no_enable_prefix_caching",
               e.prefix_caching, "reuse the KV cache of equal prompt beginnings (on)");
  sub.add_flag("--enable-chunked-prefill,--enable_chunked_prefill,!--no-enable-chunked-prefill,!--no-enable_chunked_prefill,!--no_enable_chunked_prefill",
               e.chunked_prefill, "cut long prompts into chunks (on)");
  sub.add_option(spellings("chat-template"), f.serve.front.chat_template, "file, name of a template, or the template itself");
  sub.add_option(spellings("default-chat-template-kwargs"), f.template_kwargs, "JSON object of template variables for every chat request");
  sub.add_option(spellings("generation-config"), f.generation_config, "auto: sampling defaults from the model's files; vllm: neutral ones")
      ->check(CLI::IsMember({"auto", "vllm"}))->capture_default_str();
  sub.add_option(spellings("override-generation-config"), f.override_generation, "JSON object of sampling defaults that win over the model's");
}

void add_foreign_flags(CLI::App& sub, Flags& f) {
  for (const RefusedFlag& r : kRefused) {
    f.refused[r.name] = r.only;
    sub.add_option(spellings(r.name), f.refused[r.name], std::string("only ") + r.only + ": " + r.why)->group("Other engines");
  }
  for (const IgnoredFlag& i : kIgnored) {
    CLI::Option* option = i.takes_value ? sub.add_option(spellings(i.name), f.ignored_values[i.name], "") : sub.add_flag(spellings(i.name));
    option->description(std::string("no effect: ") + i.why)->group("Other engines");
    f.ignored.push_back(option);
  }
}

Result<Json> json_flag(const std::string& text, const char* flag) {
  if (text.empty()) return Json::object();
  auto json = serve::parse_json(text);
  if (!json || !json->is_object()) return fail(Code::invalid_argument, "'" + serve::shortened(text) + "' is no JSON object", flag, "write {\"name\": value}");
  return json;
}

Result<std::vector<std::string>> origin_list(const std::vector<std::string>& given) {
  if (given.size() != 1 || !given[0].starts_with("[")) return given;
  const auto json = serve::parse_json(given[0]);
  std::vector<std::string> out;
  const bool fine = json && json->is_array() && std::all_of(json->begin(), json->end(), [](const Json& v) { return v.is_string(); });
  if (!fine) return fail(Code::invalid_argument, "'" + serve::shortened(given[0]) + "' is no JSON array of strings", "--allowed-origins");
  for (const Json& v : *json) out.push_back(v.get<std::string>());
  return out;
}

Result<ServeOptions> resolve(const Flags& f, const CLI::App& sub, const Context& context, const levers::Levers& levers) {
  ServeOptions o = f.serve;
  for (const RefusedFlag& r : kRefused) {
    const std::string& value = f.refused.at(r.name);
    if (value != r.only && !value.empty()) return fail(Code::unsupported, std::string(r.why) + ", got '" + value + "'", std::string("--") + r.name, "leave the flag out");
  }
  ISO_TRY(const std::string path, model_path(f.model, context.environment));
  ISO_TRY(o.engine, f.engine.resolve(path, levers));
  ISO_TRY(o.front.template_kwargs, json_flag(f.template_kwargs, "--default-chat-template-kwargs"));
  o.front.use_generation_config = f.generation_config == "auto";
  ISO_TRY(o.front.sampling_overrides, serve::SamplingDefaults::parse(f.override_generation, "--override-generation-config"));
  ISO_TRY(auto origins, origin_list(f.origins));
  if (!origins.empty()) o.http.allowed_origins = std::move(origins);
  o.http.port = f.server_port >= 0 ? f.server_port : f.port;
  o.http.body_limit = size_t(f.body_mb * (1 << 20));
  if (!levers.program().api_key.empty()) o.api.api_keys.push_back(levers.program().api_key);
  if (!o.api.served_names.empty()) o.engine.served_name = o.api.served_names.front();
  o.api.version = ISOTOPE_VERSION;
  auto settings = serve::parse_json(levers::to_json(levers));
  o.api.config = [flags = flags_json(sub), list = settings ? *settings : Json::array()] { return Json{{"flags", flags}, {"levers", list}}; };
  o.request_log = f.request_log;
  o.log_level = levers.program().log_level;
  return o;
}

}  // namespace

void add_serve(CLI::App& app, Context& context) {
  auto f = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand("serve", "OpenAI-compatible HTTP server");
  add_server_flags(*sub, *f);
  add_model_flags(*sub, *f);
  add_foreign_flags(*sub, *f);
  sub->callback([f, sub, &context] {
    context.run = [f, sub, &context] {
      const auto levers = resolve_levers(context);
      if (!levers) return report(levers.error());
      auto options = resolve(*f, *sub, context, *levers);
      if (!options) return report(options.error());
      for (const std::string& w : levers->warnings()) std::fprintf(stderr, "isotope: %s\n", w.c_str());
      for (size_t i = 0; i < f->ignored.size(); ++i) {
        if (f->ignored[i]->count() > 0) std::fprintf(stderr, "isotope: --%s has no effect: %s\n", kIgnored[i].name, kIgnored[i].why);
      }
      return run_server(*std::move(options), *levers);
    };
  });
}

}  // namespace isotope::app
