// isotope serve: the HTTP server. Flags as ATOM and vLLM spell them.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "commands.h"
#include "flags.h"
#include "foreign_flags.h"
#include "levers/print.h"
#include "model_list.h"
#include "serve/tools/registry.h"
#include "serve_process.h"

namespace isotope::app {
namespace {

using serve::Json;

struct Flags {
  EngineFlags engine;
  ServeOptions serve;
  std::vector<std::string> models = {"smollm2-135m"}, pinned;
  std::string models_dir;
  int models_max = 4;
  bool autoload = true;
  double idle_s = 0;
  std::string template_kwargs, generation_config = "auto", override_generation, request_log;
  std::vector<std::string> origins;
  bool page = true;
  std::string seed;
  ForeignFlags foreign;
  int port = 8000, server_port = -1;
  double body_mb = 32;
  bool lockstep = false;
  std::optional<int64_t> checkpoint_interval;
  std::optional<bool> checkpoint_demand;
};

void add_server_flags(CLI::App& sub, Flags& f) {
  serve::HttpOptions& http = f.serve.http;
  sub.add_option("--model,-m,model", f.models, "GGUF file, Hugging Face folder or built-in name, NAME= may stand in front; repeated: several models,"
                                                " of which a request's `model` chooses one")->allow_extra_args(false)->capture_default_str();
  sub.add_option(spellings("models-dir"), f.models_dir, "folder whose GGUF files and Hugging Face folders are models as well");
  sub.add_option(spellings("models-max"), f.models_max, "most models in memory at once; 0 = as many as it holds")->check(CLI::Range(0, 1 << 20))->capture_default_str();
  sub.add_flag("--models-autoload,!--no-models-autoload", f.autoload, "a model is loaded when a request first names it (on)");
  sub.add_option(spellings("pin"), f.pinned, "model that is loaded at start and never unloaded (repeatable)")->allow_extra_args(false);
  sub.add_option(spellings("sleep-idle-seconds"), f.idle_s, "a model without a request for so long is unloaded; 0 = never (with several models)")
      ->check(CLI::Range(-1.0, 1e9))->capture_default_str();
  sub.add_option(spellings("served-model-name", "-a,--alias"), f.serve.api.served_names, "names that requests may use; the first one is shown (repeatable)");
  sub.add_option("--host", http.host, "address to listen on")->capture_default_str();
  sub.add_option("--port", f.port, "HTTP port; 0 takes a free one")->check(CLI::Range(0, 65535))->capture_default_str();
  sub.add_option(spellings("server-port"), f.server_port, "HTTP port as ATOM spells it: --port is then internal")->check(CLI::Range(0, 65535));
  sub.add_option(spellings("api-key"), f.serve.api.api_keys, "key that clients must send (repeatable); also ISOTOPE_API_KEY")->allow_extra_args(false);
  sub.add_flag("--webui,!--no-webui,!--no-ui,!--no_webui", f.page, "the chat page at / (on)");
  sub.add_option(spellings("allowed-origins"), f.origins, "origins that browsers may ask from, a JSON array or repeated; default all")
      ->allow_extra_args(false);
  sub.add_option(spellings("timeout-keep-alive"), http.keep_alive_s, "seconds before an idle connection is closed")->check(CLI::Range(0.1, 1e6))->capture_default_str();
  sub.add_option(spellings("max-body-mb"), f.body_mb, "largest request body in MiB")->check(CLI::Range(0.001, 4096.0))->capture_default_str();
  sub.add_option(spellings("max-logprobs"), f.serve.api.limits.max_logprobs, "most log-probabilities for one token")->check(CLI::Range(0, 1000))->capture_default_str();
  sub.add_option(spellings("http-threads", "--threads-http"), http.worker_threads, "threads that parse, render templates and tokenize")->check(CLI::Range(1, 256))->capture_default_str();
  sub.add_option(spellings("shutdown-timeout"), f.serve.drain_s, "seconds that running answers get after SIGTERM")->check(CLI::Range(0.0, 86400.0))->capture_default_str();
  sub.add_option(spellings("health-stall-seconds"), f.serve.api.stall_seconds, "/health says 503 when work waits and no step ended for that long; 0 = never")
      ->check(CLI::Range(0.0, 1e9))->capture_default_str();
  sub.add_option(spellings("request-log"), f.request_log, "file that gets one JSON line for each finished call");
}

void add_model_flags(CLI::App& sub, Flags& f) {
  EngineOptions& e = f.engine.options;
  f.engine.add(sub);
  sub.add_option(spellings("max-num-seqs", "--parallel,--max-batch-size,--max-decode-seqs"), e.max_num_seqs, "sequences that run at once")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  sub.add_option(spellings("max-num-batched-tokens"), e.max_num_batched_tokens, "tokens of one step")->check(CLI::Range(int64_t{1}, int64_t{1} << 30))->capture_default_str();
  sub.add_option(spellings("long-prefill-token-threshold"), e.long_prefill_token_threshold, "most tokens of one prompt in a step; 0 = no cap")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))->capture_default_str();
  sub.add_option(spellings("max-queue"), e.max_queue, "requests beyond --max-num-seqs before new ones get 429")->check(CLI::Range(1, 1 << 24))->capture_default_str();
  sub.add_option(spellings("queue-timeout-ms"), e.queue_timeout_ms, "a request that has not started by then gets 503; 0 = it may wait for ever")
      ->check(CLI::Range(int64_t{0}, int64_t{INT32_MAX}))->capture_default_str();
  sub.add_flag("--fair-share,--fair_share,!--no-fair-share,!--no_fair_share", e.fair_share,
               "API keys, else users, take turns by the tokens they cost (on); off: first come, first served");
  sub.add_option(spellings("data-parallel-size"), e.data_parallel_size, "engines that share the cores, the weights and the memory; 0 = ATOM_DP_SIZE")
      ->check(CLI::Range(0, 1024))->capture_default_str();
  sub.add_option(spellings("dp-load-balance"), e.dp_load_balance, "how requests are spread over them")
      ->check(CLI::IsMember(kRoutings))->capture_default_str();
  sub.add_flag("--dp-lockstep,--dp_lockstep,--enable-dp-attention,--enable_dp_attention", f.lockstep,
               "they step together, with one verdict on when prompts are computed and their cost evened out");
  sub.add_option(spellings("state-checkpoint-interval-tokens"), f.checkpoint_interval,
                 "recurrent layers: tokens between stored states; -1: only at a prompt's end and where one was missed, 0: none; ATOM_STATE_CHECKPOINT_INTERVAL_TOKENS rules")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 40));
  sub.add_flag("--state-checkpoint-demand,--state_checkpoint_demand,!--no-state-checkpoint-demand,!--no_state_checkpoint_demand", f.checkpoint_demand,
               "store a state where a prefix hit ended early for want of one (on); ATOM_STATE_CHECKPOINT_DEMAND rules");
  sub.add_option(spellings("preempt-every"), e.preempt_every, "test aid: preempt a sequence every N steps")->group("");
  sub.add_flag("--enable-prefix-caching,--enable_prefix_caching,!--no-enable-prefix-caching,!--no-enable_prefix_caching,!--no_enable_prefix_caching",
               e.prefix_caching, "reuse the KV cache of equal prompt beginnings (on)");
  sub.add_flag("--enable-chunked-prefill,--enable_chunked_prefill,!--no-enable-chunked-prefill,!--no-enable_chunked_prefill,!--no_enable_chunked_prefill",
               e.chunked_prefill, "cut long prompts into chunks (on)");
  sub.add_option(spellings("chat-template", "--chat-template-file"), f.serve.front.chat_template, "file, name of a template, or the template itself");
  sub.add_option(spellings("tool-call-parser"), f.serve.front.tool_parser, "how the model writes tool calls: auto, none, " + serve::tool_parser_names());
  sub.add_option(spellings("reasoning-parser"), f.serve.front.reasoning_parser, "how the model marks its reasoning: auto, none, " + serve::reasoning_parser_names());
  sub.add_option(spellings("reasoning-budget"), f.serve.front.thinking_budget, "most tokens of reasoning in an answer whose request names no budget; -1: no limit")
      ->check(CLI::Range(int64_t{-1}, int64_t{1} << 40))->capture_default_str();
  sub.add_option(spellings("default-chat-template-kwargs"), f.template_kwargs, "JSON object of template variables for every chat request");
  sub.add_option(spellings("generation-config"), f.generation_config, "auto: sampling defaults from the model's files; vllm: neutral ones")
      ->check(CLI::IsMember({"auto", "vllm"}))->capture_default_str();
  sub.add_option("--seed,-s", f.seed, "seed of requests that name none; -1 draws one for each (default)");
  sub.add_option(spellings("override-generation-config"), f.override_generation, "JSON object of sampling defaults that win over the model's");
}

Result<Json> json_flag(const std::string& text, const char* flag) {
  if (text.empty()) return Json::object();
  auto json = serve::parse_json(text);
  if (!json || !json->is_object()) return fail(Code::invalid_argument, "'" + serve::shortened(text) + "' is no JSON object", flag, "write {\"name\": value}");
  return json;
}

// As vLLM and llama-server read it; -1 is the latter's word for none.
Result<std::optional<uint64_t>> seed_flag(const std::string& text) {
  if (text.empty() || text == "-1") return std::nullopt;
  int64_t negative = 0;
  uint64_t seed = 0;
  const char *begin = text.data(), *end = begin + text.size();
  const auto [u, u_error] = std::from_chars(begin, end, seed);
  if (u_error == std::errc() && u == end) return seed;
  const auto [i, i_error] = std::from_chars(begin, end, negative);
  if (i_error == std::errc() && i == end) return uint64_t(negative);
  return fail(Code::invalid_argument, "'" + serve::shortened(text) + "' is no integer of 64 bits", "--seed", "give an integer, or leave the flag out");
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

// An empty text is mostly a variable that was not set: as a key it would leave the server open, as a host it would listen everywhere.
Result<void> check_given(const CLI::App& sub) {
  for (const CLI::Option* option : sub.get_options()) {
    const bool real = option->get_type_name().starts_with("FLOAT");
    for (const std::string& v : option->count() > 0 ? option->results() : std::vector<std::string>()) {
      if (v.empty()) return fail(Code::invalid_argument, "the value is empty", option->get_name(), "give a value, or leave the flag out");
      // The parser's ranges let nan through: it is neither below nor above.
      if (real && !std::isfinite(std::strtod(v.c_str(), nullptr))) {
        return fail(Code::invalid_argument, "'" + v + "' is not a finite number", option->get_name(), "give a number, or leave the flag out");
      }
    }
  }
  return {};
}

Result<void> check_keys(const std::vector<std::string>& keys) {
  for (const std::string& k : keys) {
    const bool fine = std::all_of(k.begin(), k.end(), [](unsigned char c) { return c > ' ' && c != 0x7F; });
    if (!fine) return fail(Code::invalid_argument, "an API key holds a space or a control character, which no header can carry", "--api-key", "choose another key");
  }
  return {};
}

Result<ServeOptions> resolve(const Flags& f, const CLI::App& sub, const Context& context, const levers::Levers& levers) {
  ServeOptions o = f.serve;
  ISO_CHECK_OK(check_given(sub));
  if (const auto key = context.environment.find("ISOTOPE_API_KEY"); key != context.environment.end() && key->second.empty()) {
    return fail(Code::invalid_argument, "the value is empty", "environment variable ISOTOPE_API_KEY", "set it to the key, or unset it");
  }
  ISO_CHECK_OK(f.foreign.check());
  for (const std::string& note : f.foreign.notes()) std::fprintf(stderr, "isotope: %s\n", note.c_str());
  ISO_CHECK_OK(serve::find_tool_parser(o.front.tool_parser, ""));
  ISO_CHECK_OK(serve::find_reasoning_parser(o.front.reasoning_parser, ""));
  ISO_TRY(o.front.template_kwargs, json_flag(f.template_kwargs, "--default-chat-template-kwargs"));
  o.front.tokenize_cache_bytes = levers.text().tokenize_cache_mb << 20;
  o.front.delta_reuse = levers.text().delta_reuse;
  o.front.audit_every = levers.text().audit_every;
  o.front.use_generation_config = f.generation_config == "auto";
  ISO_TRY(o.front.sampling_overrides, serve::SamplingDefaults::parse(f.override_generation, "--override-generation-config",
                                                                         serve::SamplingDefaults::Names::only_known));
  ISO_TRY(o.front.sampling_overrides.seed, seed_flag(f.seed));
  ISO_TRY(auto origins, origin_list(f.origins));
  if (!levers.program().api_key.empty()) o.api.api_keys.push_back(levers.program().api_key);
  ISO_CHECK_OK(check_keys(o.api.api_keys));
  const bool folder_alone = !f.models_dir.empty() && sub.count("--model") == 0;
  ISO_TRY(o.models, served_models(folder_alone ? std::vector<std::string>() : f.models, f.models_dir, f.pinned, context.environment));
  ISO_TRY(o.engine, f.engine.resolve(o.models.front().path, levers));
  o.models_max = f.models_max, o.models_autoload = f.autoload, o.idle_s = std::max(0.0, f.idle_s);
  if (const auto seqs = levers.capacity().max_decode_seqs; seqs && sub.count("--max-num-seqs") == 0) o.engine.max_num_seqs = int(std::min<int64_t>(*seqs, 1 << 20));
  o.api.page = f.page;
  if (!origins.empty()) o.http.allowed_origins = std::move(origins);
  o.http.port = f.server_port >= 0 ? f.server_port : f.port;
  o.http.body_limit = size_t(f.body_mb * (1 << 20));
  if (!o.api.served_names.empty()) o.engine.served_name = o.api.served_names.front();
  o.api.version = ISOTOPE_VERSION;
  auto settings = serve::parse_json(levers::to_json(levers));
  o.api.config = [flags = flags_json(sub), list = settings ? *settings : Json::array()] { return Json{{"flags", flags}, {"levers", list}}; };
  o.request_log = f.request_log;
  o.log_level = levers.program().log_level;
  return o;
}

/// What a flag says holds only where neither --set nor the environment names the setting, as ATOM has it.
void set_by_flag(Context& c, const std::string& name, const std::string& value) {
  if (!c.environment.contains(name)) c.set.insert(c.set.begin(), name + "=" + value);
}

}  // namespace

void add_serve(CLI::App& app, Context& context) {
  auto f = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand("serve", "OpenAI-compatible HTTP server");
  add_server_flags(*sub, *f);
  add_model_flags(*sub, *f);
  f->foreign.add(*sub);
  sub->footer("Flags of vLLM, ATOM and llama-server that are not listed here are accepted where they have no effect, and refused with the reason otherwise.");
  sub->callback([f, sub, &context] {
    if (f->lockstep) context.set.push_back("ISOTOPE_DP_LOCKSTEP=1");
    if (f->checkpoint_interval) set_by_flag(context, "ATOM_STATE_CHECKPOINT_INTERVAL_TOKENS", std::to_string(*f->checkpoint_interval));
    if (f->checkpoint_demand) set_by_flag(context, "ATOM_STATE_CHECKPOINT_DEMAND", *f->checkpoint_demand ? "1" : "0");
    context.run = [f, sub, &context] {
      const auto levers = resolve_levers(context);
      if (!levers) return report(levers.error());
      auto options = resolve(*f, *sub, context, *levers);
      if (!options) return report(options.error());
      return run_server(*std::move(options), *levers);
    };
  });
}

}  // namespace isotope::app
