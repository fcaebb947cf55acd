// isotope bench serve: the speed of a running server, this one or another of OpenAI's form, under drawn or recorded requests. Flags and JSON keys are
// those of vLLM's serving benchmark.
#include "bench_serve.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "bench_serve_client.h"
#include "bench_serve_dataset.h"
#include "bench_serve_plot.h"
#include "bench_serve_stream.h"
#include "flags.h"

namespace isotope::app {
namespace {

using serve::Json;

struct Options {
  std::string base_url = "http://127.0.0.1:8000", host, endpoint = "/v1/completions", backend = "openai", model, api_key, extra_body, result_file;
  int port = 0;
  std::string label, plot_file, rate_text = "inf", result_folder, result_name;
  std::vector<std::string> percentiles, metrics, goodput, metadata;
  int64_t concurrency = 8, warmups = 0, repeated_prefix = 256, repeated_suffix = 256, repeated_prefixes = 10;
  DatasetPlan data;
  double timeout_s = 600, wait_s = 0, burstiness = 1;
  CLI::Option *save_flag = nullptr, *concurrency_flag = nullptr, *count_flag = nullptr, *output_flag = nullptr;
  bool json = false, detailed = false, ignore_eos = true;
  bool no_effect = false;     ///< switches of vLLM's benchmark that say what is done anyway
  std::string no_tokenizer;
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
  const bool chat = o.backend == "openai-chat" && o.endpoint == "/v1/completions";
  LoadOptions load{.endpoint = chat ? "/v1/chat/completions" : o.endpoint, .api_key = o.api_key.empty() ? levers.program().client_api_key : o.api_key, .concurrency = o.concurrency, .timeout_s = o.timeout_s, .arrivals = {}};
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

bool chats(const Options& o) { return o.backend == "openai-chat" || o.endpoint.ends_with("/chat/completions"); }

Result<Json> extra_fields(const Options& o) {
  if (o.extra_body.empty()) return Json::object();
  const auto given = serve::parse_json(o.extra_body);
  if (!given || !given->is_object()) return fail(Code::invalid_argument, "'" + serve::shortened(o.extra_body) + "' is no JSON object", "--extra-body", "give {\"field\": value}");
  return *given;
}

Json body_of(const Options& o, const std::string& model, BenchRequest request) {
  Json body = {{"model", model}};
  const bool messages = request.prompt.is_array() && !request.prompt.empty() && request.prompt[0].is_object();
  if (chats(o)) {
    body["messages"] = messages ? std::move(request.prompt) : Json::array({{{"role", "user"}, {"content", std::move(request.prompt)}}});
  } else {
    body["prompt"] = std::move(request.prompt);
  }
  body.update({{chats(o) ? "max_completion_tokens" : "max_tokens", request.output}, {"temperature", 0}, {"ignore_eos", o.ignore_eos}, {"stream", true},
               {"stream_options", {{"include_usage", true}}}});
  return body;
}

Result<std::vector<std::string>> bodies(const Options& o, const std::string& model, std::vector<BenchRequest> requests) {
  ISO_TRY(const Json extra, extra_fields(o));
  std::vector<std::string> out;
  for (BenchRequest& request : requests) {
    const bool messages = request.prompt.is_array() && !request.prompt.empty() && request.prompt[0].is_object();
    if (messages && !chats(o)) return fail(Code::invalid_argument, "the dataset holds messages of chats, and " + o.endpoint + " takes prompts", "--endpoint", "add --backend openai-chat");
    if (chats(o) && request.prompt.is_array() && !messages)
      return fail(Code::invalid_argument, "the dataset holds token ids, and a chat takes text", "--backend openai-chat", "use /v1/completions for this dataset");
    Json body = body_of(o, model, std::move(request));
    body.update(extra);
    out.push_back(serve::dump(body));
  }
  return out;
}

Result<bool> warm_up(const Options& o, const LoadOptions& load, const std::string& model) {
  DatasetPlan data = o.data;
  data.kind = "random";
  data.prompts.count = o.warmups;
  data.prompts.seed ^= 0x5741524d;  // other prompts than the measured ones, so that no cache has them
  data.range_ratio = 0;
  ISO_TRY(auto requests, load_requests(data));
  ISO_TRY(const auto warm, bodies(o, model, std::move(requests)));
  LoadOptions at_once = load;
  at_once.arrivals.clear();
  return !run_load(at_once, warm, [](const Progress&) {}).interrupted;
}

/// Numbers of a list that may be written with commas.
Result<std::vector<double>> percentages(const std::vector<std::string>& texts) {
  std::vector<double> out;
  for (const std::string& text : texts) {
    char* end = nullptr;
    const double p = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(p >= 0 && p <= 100)) return fail(Code::invalid_argument, "'" + text + "' is no percentage", "--metric-percentiles", "give numbers from 0 to 100, as 50,99");
    out.push_back(p);
  }
  return out;
}

/// What the report is told about the run before it begins.
Result<ServeRun> planned(const Options& o) {
  ServeRun r{.backend = o.backend, .model = o.model, .time = local_time(), .label = o.label, .asked_output = o.data.output, .burstiness = o.burstiness};
  if (o.rate_text != "inf") {
    char* end = nullptr;
    r.rate = std::strtod(o.rate_text.c_str(), &end);
    if (*end != '\0' || !(r.rate > 0) || !std::isfinite(r.rate)) return fail(Code::invalid_argument, "'" + o.rate_text + "' is no rate", "--request-rate", "give requests a second above 0, or inf");
  }
  if (!o.percentiles.empty()) {
    ISO_TRY(r.percentiles, percentages(o.percentiles));
  }
  if (!o.metrics.empty()) r.metrics = o.metrics;
  for (const std::string& text : o.goodput) {
    ISO_TRY(auto objective, parse_objective(text));
    r.objectives.push_back(std::move(objective));
  }
  for (const std::string& text : o.metadata) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) return fail(Code::invalid_argument, "'" + text + "' is no KEY=VALUE", "--metadata", "give KEY=VALUE");
    r.metadata.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return r;
}

DatasetPlan dataset(const Options& o) {
  DatasetPlan d = o.data;
  d.output_given = o.output_flag->count() > 0;
  d.all = o.count_flag->count() == 0 && d.kind == "jsonl";
  if (chats(o)) d.prompts.text = true;
  if (d.kind == "custom" || d.kind == "trace") d.kind = "jsonl", d.all = o.count_flag->count() == 0;
  if (d.kind == "prefix_repetition") d.prompts.prefix = o.repeated_prefix, d.prompts.input = o.repeated_suffix, d.prompts.prefixes = o.repeated_prefixes;
  return d;
}

/// When each request goes out: by the rate, else as the dataset says, else as soon as there is room.
std::vector<double> times(const ServeRun& r, const std::vector<BenchRequest>& requests, uint64_t seed) {
  if (r.rate > 0) return arrivals(requests.size(), r.rate, r.burstiness, seed);
  std::vector<double> at;
  for (const BenchRequest& request : requests)
    if (request.at_s >= 0) at.push_back(request.at_s);
  return at.size() == requests.size() ? at : std::vector<double>();
}

Result<void> write_file(const std::string& path, const std::string& text, const char* flag) {
  if (!(std::ofstream(path) << text).flush()) return fail(Code::unavailable, "cannot write '" + path + "'", flag, "name a file in a folder that exists");
  return {};
}

/// Where the JSON goes: --save-result FILE, or as vLLM's benchmark spells it --save-result with --result-dir and --result-filename.
std::string result_file(const Options& o, const ServeRun& r) {
  if (o.save_flag->count() == 0 && o.result_name.empty()) return {};
  std::string name = !o.result_file.empty() ? o.result_file : o.result_name;
  if (name.empty()) {
    std::string model = r.model.substr(r.model.find_last_of('/') + 1);
    name = fmt::format("{}-{}qps-{}-{}.json", r.backend, o.rate_text, model, r.time);
  }
  return o.result_folder.empty() ? name : (std::filesystem::path(o.result_folder) / name).string();
}

/// Before hours of measuring: whether there is a place for the results.
Result<void> check_writable(const std::string& path, const char* flag) {
  if (path.empty()) return {};
  std::error_code none;
  const bool there = std::filesystem::exists(path, none);
  if (!std::ofstream(path, std::ios::app)) return fail(Code::invalid_argument, "cannot write '" + path + "'", flag, "name a file in a folder that exists");
  if (!there) std::filesystem::remove(path, none);
  return {};
}

Result<void> write_results(const Options& o, const ServeRun& r, const std::string& json, bool pytorch) {
  if (!o.result_file.empty()) ISO_CHECK_OK(write_file(o.result_file, json, "--save-result"));
  if (!o.plot_file.empty()) ISO_CHECK_OK(write_file(o.plot_file, serve_svg(r), "--plot"));
  if (!pytorch) return {};
  if (o.result_file.empty()) {
    std::fputs("isotope: SAVE_TO_PYTORCH_BENCHMARK_FORMAT writes beside the file of --save-result, which is not given\n", stderr);
    return {};
  }
  const std::filesystem::path stem = std::filesystem::path(o.result_file).replace_extension(".pytorch.json");
  return write_file(stem.string(), pytorch_records(r).dump(2, ' ', false, Json::error_handler_t::replace) + "\n", "--save-result");
}

Result<int> run(Options o, const Context& context) {
  ISO_TRY(const levers::Levers levers, resolve_levers(context));
  ISO_TRY(LoadOptions load, load_options(o, levers));
  if (o.wait_s > 0) ISO_CHECK_OK(wait_ready(load, o.wait_s));
  ISO_TRY(ServeRun r, planned(o));
  const DatasetPlan plan = dataset(o);
  ISO_TRY(auto requests, load_requests(plan));
  load.arrivals = times(r, requests, plan.prompts.seed);
  if (!load.arrivals.empty() && o.concurrency_flag->count() == 0) load.concurrency = int64_t(requests.size());
  r.concurrency = load.concurrency;
  if (r.model.empty()) {
    ISO_TRY(r.model, served_model(load));
  }
  o.result_file = result_file(o, r);
  ISO_CHECK_OK(check_writable(o.result_file, "--save-result"));
  ISO_CHECK_OK(check_writable(o.plot_file, "--plot"));
  std::vector<std::pair<int64_t, int64_t>> lengths;
  for (const BenchRequest& request : requests) lengths.emplace_back(request.input, request.output);
  ISO_TRY(const auto texts, bodies(o, r.model, std::move(requests)));
  if (o.warmups > 0) {
    ISO_TRY(const bool done, warm_up(o, load, r.model));
    if (!done) return 130;
  }
  LoadResult result = run_load(load, texts, show);
  r.duration = result.duration;
  r.interrupted = result.interrupted;
  r.fingerprint = result.fingerprint;
  r.records = std::move(result.records);
  for (size_t i = 0; i < r.records.size(); ++i) {
    if (r.records[i].input == 0) r.records[i].input = lengths[i].first;  // a server that counts nothing got what was sent
    r.records[i].asked = lengths[i].second;
  }
  const std::string json = serve_json(r, o.detailed).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fputs((o.json ? json : serve_table(r)).c_str(), stdout);
  ISO_CHECK_OK(write_results(o, r, json, levers.find("SAVE_TO_PYTORCH_BENCHMARK_FORMAT")->value == "true"));
  bool failed = false;
  for (const RequestRecord& record : r.records) failed = failed || !record.completed();
  for (const std::string& warning : serve_warnings(r)) fmt::print(stderr, "isotope: {}\n", warning);
  return r.interrupted ? 130 : failed ? 1 : 0;
}

void add_server_flags(CLI::App& sub, Options& o) {
  CLI::Option* url = sub.add_option(spellings("base-url", "--url"), o.base_url, "the server")->capture_default_str();
  sub.add_option("--host", o.host, "the server's host, instead of --base-url")->excludes(url);
  sub.add_option("--port", o.port, "its port")->check(CLI::Range(1, 65535))->excludes(url);
  sub.add_option("--endpoint", o.endpoint, "path of the completions")->capture_default_str();
  sub.add_option("-m,--model", o.model, "the model's name there (default: the first that the server lists)");
  sub.add_option("--backend", o.backend, "name of the server in the report; openai-chat sends chats")->capture_default_str();
  sub.add_option(spellings("api-key"), o.api_key, "key to send; also OPENAI_API_KEY");
  sub.add_option("--wait,--ready-check-timeout-sec", o.wait_s, "seconds to wait until /health says that the server is ready")->check(CLI::Range(0.0, 86400.0))->capture_default_str();
  sub.add_option("--timeout", o.timeout_s, "seconds without a byte after which a request is given up")->check(CLI::Range(0.01, 86400.0))->capture_default_str();
}

void add_load_flags(CLI::App& sub, Options& o) {
  const auto size = CLI::Range(int64_t{0}, int64_t{1} << 24);
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 24);
  o.count_flag = sub.add_option(spellings("num-prompts", "-n"), o.data.prompts.count, "requests (default of a JSON lines file: all of it)")->check(positive)->capture_default_str();
  o.concurrency_flag = sub.add_option(spellings("max-concurrency", "-c"), o.concurrency, "requests at a time (default with a rate or recorded times: no limit)")
                           ->check(CLI::Range(int64_t{1}, int64_t{1} << 16))->capture_default_str();
  sub.add_option(spellings("request-rate"), o.rate_text, "requests a second; inf: the next as soon as one has ended")->capture_default_str();
  sub.add_option(spellings("burstiness"), o.burstiness, "shape of the gaps: 1 is a Poisson process, less is burstier")->check(CLI::Range(0.01, 1e6))->capture_default_str();
  sub.add_option(spellings("random-input-len", "--input-len"), o.data.prompts.input, "tokens of each prompt that are its own")->check(size)->capture_default_str();
  o.output_flag = sub.add_option(spellings("random-output-len", "--output-len,--sharegpt-output-len,--custom-output-len"), o.data.output, "tokens of each answer")
                      ->check(positive)->capture_default_str();
  sub.add_option(spellings("random-prefix-len", "--prefix-len"), o.data.prompts.prefix, "tokens that all prompts begin with")->check(size)->capture_default_str();
  sub.add_option(spellings("random-range-ratio"), o.data.range_ratio, "lengths vary by this share both ways")->check(CLI::Range(0.0, 0.999))->capture_default_str();
  sub.add_option(spellings("num-warmups"), o.warmups, "requests before, which are not counted")->check(size)->capture_default_str();
  sub.add_option("--seed", o.data.prompts.seed, "another seed gives other prompts")->capture_default_str();
  sub.add_option(spellings("token-range"), o.data.prompts.range, "FIRST,END of the token ids that prompts are drawn from")->delimiter(',')->expected(2)->capture_default_str();
  sub.add_flag("--text", o.data.prompts.text, "send words, about one token each, instead of token ids");
  sub.add_flag("--ignore-eos,--no-ignore-eos{false}", o.ignore_eos, "answers have their whole length (on)");
  sub.add_option(spellings("extra-body"), o.extra_body, "JSON object of fields that every request gets");
}

void add_dataset_flags(CLI::App& sub, Options& o) {
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 24);
  sub.add_option(spellings("dataset-name"), o.data.kind, "random; prefix_repetition; sharegpt: a file of conversations; jsonl (also custom, trace): a file of lines with prompt, messages or "
                 "input_length (and hash_ids), output_length, timestamp in milliseconds")
      ->check(CLI::IsMember({"random", "prefix_repetition", "sharegpt", "jsonl", "custom", "trace"}))->capture_default_str();
  sub.add_option(spellings("dataset-path"), o.data.path, "the file");
  sub.add_option(spellings("prefix-repetition-prefix-len"), o.repeated_prefix, "tokens of a shared beginning")->check(positive)->capture_default_str();
  sub.add_option(spellings("prefix-repetition-suffix-len"), o.repeated_suffix, "tokens after it")->check(positive)->capture_default_str();
  sub.add_option(spellings("prefix-repetition-num-prefixes"), o.repeated_prefixes, "different beginnings, taken in turn")->check(positive)->capture_default_str();
}

void add_report_flags(CLI::App& sub, Options& o) {
  sub.add_flag("--json", o.json, "JSON with the key names of vLLM's serving benchmark");
  sub.add_flag("--save-detailed", o.detailed, "the JSON tells every request: lengths, times, texts, errors");
  o.save_flag = sub.add_option(spellings("save-result"), o.result_file, "write the JSON to this file as well; without a name one is made of backend, rate, model and time")->expected(0, 1);
  sub.add_option(spellings("result-dir"), o.result_folder, "folder of that file");
  sub.add_option(spellings("result-filename"), o.result_name, "its name, as vLLM's benchmark spells it");
  sub.add_flag("--disable-tqdm,--trust-remote-code", o.no_effect, "accepted for vLLM's command lines")->group("");
  sub.add_option("--tokenizer", o.no_tokenizer, "accepted for vLLM's command lines")->group("");
  sub.add_option("--plot", o.plot_file, "draw the run as an SVG to this file");
  sub.add_option(spellings("percentile-metrics"), o.metrics, "which latencies are told: ttft,tpot,itl,e2el (default: all)")->delimiter(',')->check(CLI::IsMember({"ttft", "tpot", "itl", "e2el"}));
  sub.add_option(spellings("metric-percentiles"), o.percentiles, "which percentiles of them (default: 90,95,99)")->delimiter(',');
  sub.add_option("--goodput", o.goodput, "limits as ttft:MS tpot:MS e2el:MS; answers within all of them are counted as request_goodput");
  sub.add_option("--label", o.label, "name of the run in the JSON");
  sub.add_option("--metadata", o.metadata, "KEY=VALUE for the JSON, any number");
}

}  // namespace

void add_bench_serve(CLI::App& bench, Context& context) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = bench.add_subcommand("serve", "speed of a running server: greedy streamed requests at a rate or so many at a time, drawn or from a file");
  add_server_flags(*sub, *o);
  add_load_flags(*sub, *o);
  add_dataset_flags(*sub, *o);
  add_report_flags(*sub, *o);
  sub->callback([o, &context] {
    context.run = [o, &context] {
      const auto status = run(*o, context);
      return status ? *status : report(status.error());
    };
  });
}

}  // namespace isotope::app
