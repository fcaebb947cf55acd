#include "foreign_flags.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "flags.h"

namespace isotope::app {
namespace {

// kSwitch: no value. kOptional: may stand alone. kList: as many values as follow.
enum Shape : uint8_t { kSwitch, kValue, kOptional, kList };

struct Row {
  const char* name;
  Shape shape;
  const char* why;
  const char* only = nullptr;   ///< refused with any value but these, separated by '|'; nullptr: never refused; "": always
  const char* more = nullptr;   ///< further spellings
};

constexpr const char* kOneRank = "there is one rank";
constexpr const char* kOneExperts = "one rank holds all experts";
constexpr const char* kNoPlans = "the CPU captures no graphs";
constexpr const char* kNoDraft = "no drafter is configured";
constexpr const char* kNoGpu = "models run on the CPU";
constexpr const char* kReads = "calls and reasoning are read whenever it is known how the model writes them";
constexpr const char* kNoSpeculation = "speculative decoding is not supported yet";
constexpr const char* kNoParallel = "context parallelism is not supported yet";
constexpr const char* kNoLora = "LoRA adapters are not supported yet";
constexpr const char* kNoTls = "TLS is not supported; put a proxy in front";
constexpr const char* kNoHub = "models are local files";
constexpr const char* kTextOnly = "this server reads text only";
constexpr const char* kSharedSteps = "prefill and decode share every step";
constexpr const char* kUvicorn = "the HTTP server is Isotope's own";
constexpr const char* kDefaults = "write sampling defaults as --override-generation-config JSON";
constexpr const char* kRope = "write model settings as --hf-overrides JSON";
constexpr const char* kStructured = "xgrammar makes the masks of structured output";
constexpr const char* kFormOfRequest = "a form belongs to a request: send structured_outputs, grammar or json_schema with it";
constexpr const char* kOneProcess = "one process serves on one machine";
constexpr const char* kCacheTypes = "--kv-cache-dtype sets the type of keys and values together";

constexpr Row kRows[] = {
    // ATOM and vLLM
    {"trust-remote-code", kSwitch, "no code is ever taken from a checkpoint"},
    {"enforce-eager", kSwitch, "there are no graphs to capture"},
    {"level", kValue, "there is no compiler to steer"},
    {"compilation-config", kValue, "there is no compiler to steer"},
    {"optimization-level", kValue, "there is no compiler to steer", nullptr, "-O"},
    {"cudagraph-capture-sizes", kList, kNoPlans},
    {"cuda-graph-sizes", kList, kNoPlans},
    {"max-cudagraph-capture-size", kValue, kNoPlans},
    {"max-seq-len-to-capture", kValue, kNoPlans},
    {"cudagraph-mode", kValue, "the CPU captures no graphs"},
    {"enable-expert-parallel", kSwitch, kOneExperts},
    {"fake-eplb", kSwitch, kOneExperts},
    {"eplb-enable", kSwitch, kOneExperts},
    {"enable-eplb", kSwitch, kOneExperts},
    {"eplb-config", kValue, kOneExperts},
    {"enable-tbo", kOptional, "no communication is there to hide"},
    {"enable-dbo", kSwitch, "no communication is there to hide"},
    {"all2all-backend", kValue, kOneRank},
    {"disable-custom-all-reduce", kSwitch, kOneRank},
    {"distributed-executor-backend", kValue, kOneProcess},
    {"api-server-count", kValue, kOneProcess},
    {"nnodes", kValue, kOneProcess, "1"},
    {"headless", kSwitch, kOneProcess, ""},
    {"moe-backend", kValue, "there is one CPU backend"},
    {"attention-backend", kValue, "there is one CPU backend"},
    {"mark-trace", kSwitch, "profiler traces are marked anyway"},
    {"enable-rapidserve", kSwitch, kSharedSteps},
    {"disagg-prefill-max-num-seqs", kValue, kSharedSteps},
    {"disagg-constrained", kSwitch, kSharedSteps},
    {"max-num-partial-prefills", kValue, kSharedSteps},
    {"max-long-partial-prefills", kValue, kSharedSteps},
    {"async-scheduling", kSwitch, kSharedSteps},
    {"no-async-scheduling", kSwitch, kSharedSteps},
    {"scheduling-policy", kValue, "requests of the same priority run in order of arrival", "fcfs|priority"},
    {"dcp-config", kValue, kOneRank},
    {"dspark-config", kValue, kNoDraft},
    {"scheduler-delay-factor", kValue, "waiting requests are admitted at once"},
    {"attn-prefill-chunk-size", kValue, "attention walks over constant chunks"},
    {"spec-decode-acceptance-length", kValue, kNoDraft},
    {"spec-decode-acceptance-rate", kValue, kNoDraft},
    {"num-speculative-tokens", kValue, kNoDraft},
    {"index-cache-dtype", kValue, "index keys have the type of the KV cache"},
    {"torch-profiler-dir", kValue, "there is no torch profiler"},
    {"profiler-config", kValue, "there is no torch profiler"},
    {"disable-uvicorn-access-log", kSwitch, "there is no access log but --request-log"},
    {"uvicorn-log-level", kValue, kUvicorn},
    {"disable-fastapi-docs", kSwitch, kUvicorn},
    {"disable-frontend-multiprocessing", kSwitch, kOneProcess},
    {"h11-max-incomplete-event-size", kValue, kUvicorn},
    {"h11-max-header-count", kValue, kUvicorn},
    {"middleware", kValue, kUvicorn, ""},
    {"root-path", kValue, "paths begin at /; let the proxy cut the prefix", "|/"},
    {"disable-log-requests", kSwitch, "requests are only logged with --request-log"},
    {"enable-log-requests", kSwitch, "requests are logged with --request-log"},
    {"max-log-len", kValue, "requests are only logged with --request-log"},
    {"disable-log-stats", kSwitch, "statistics are at /metrics"},
    {"enable-server-load-tracking", kSwitch, "/load counts anyway"},
    {"enable-request-id-headers", kSwitch, "X-Request-Id comes back anyway"},
    {"enable-prompt-tokens-details", kSwitch, "usage has them anyway"},
    {"enable-tokenizer-info-endpoint", kSwitch, "/tokenizer_info answers anyway"},
    {"trust-request-chat-template", kSwitch, "requests may send a template anyway"},
    {"enable-force-include-usage", kSwitch, "requests ask with stream_options", ""},
    {"return-tokens-as-token-ids", kSwitch, "requests ask with return_tokens_as_token_ids", ""},
    {"response-role", kValue, "answers have the role assistant", "assistant"},
    {"chat-template-content-format", kValue, "the template tells which format it reads", "auto"},
    {"enable-auto-tool-choice", kSwitch, kReads},
    {"tool-parser-plugin", kValue, "parsers are part of the program; --tool-call-parser chooses one"},
    {"tool-server", kValue, "tools are run by the client", ""},
    {"enable-reasoning", kSwitch, kReads},
    {"guided-decoding-backend", kValue, kStructured},
    {"structured-outputs-config", kValue, kStructured},
    {"tokenizer", kValue, "the tokenizer comes with the model", ""},
    {"tokenizer-mode", kValue, "there is one tokenizer for each model"},
    {"tokenizer-revision", kValue, kNoHub},
    {"skip-tokenizer-init", kSwitch, "requests are tokenized here", ""},
    {"revision", kValue, kNoHub},
    {"code-revision", kValue, kNoHub},
    {"hf-token", kOptional, kNoHub},
    {"hf-config-path", kValue, kNoHub, ""},
    {"download-dir", kValue, kNoHub},
    {"load-format", kValue, "the file says its format; for dummy weights write --load-dummy", "auto|safetensors|gguf|hf"},
    {"config-format", kValue, "the file says its format", "auto|hf"},
    {"quantization", kValue, "weights keep the format of the file", "none|gguf", "-q"},
    {"dtype", kValue, "weights keep the format of the file"},
    {"task", kValue, "a model does what its files let it", "auto|generate|embed|embedding|score"},
    {"runner", kValue, "a model does what its files let it", "auto|generate|pooling"},
    {"convert", kValue, "a model does what its files let it", "auto|none|embed"},
    {"device", kValue, kNoGpu, "auto|cpu|none"},
    {"swap-space", kValue, "preempted requests are computed again"},
    {"cpu-offload-gb", kValue, kNoGpu},
    {"num-gpu-blocks-override", kValue, "--kv-cache-memory-bytes says how much memory the cache takes", ""},
    {"kv-offloading-size", kValue, "the cache is in main memory already"},
    {"calculate-kv-scales", kSwitch, "scales of the cache are made as it is written"},
    {"prefix-caching-hash-algo", kValue, "equal prefixes are compared, not only their hashes"},
    {"disable-hybrid-kv-cache-manager", kSwitch, "each kind of layer has its own blocks"},
    {"disable-cascade-attn", kSwitch, "attention walks over constant chunks"},
    {"disable-sliding-window", kSwitch, "the model's window is part of its answers", ""},
    {"enable-sleep-mode", kSwitch, "the server does not sleep"},
    {"stream-interval", kValue, "every token is sent as it comes"},
    {"limit-mm-per-prompt", kValue, kTextOnly},
    {"mm-processor-kwargs", kValue, kTextOnly},
    {"mm-processor-cache-gb", kValue, kTextOnly},
    {"mm-encoder-tp-mode", kValue, kTextOnly},
    {"skip-mm-profiling", kSwitch, kTextOnly},
    {"language-model-only", kSwitch, kTextOnly},
    {"allowed-local-media-path", kValue, kTextOnly},
    {"additional-config", kValue, "it is for plugins"},
    {"collect-detailed-traces", kValue, "traces are not exported"},
    {"otlp-traces-endpoint", kValue, "traces are not exported", ""},
    {"show-hidden-metrics-for-version", kValue, "no metric is hidden"},
    {"logprobs-mode", kValue, "log-probabilities are those of the model", "raw_logprobs"},
    {"logits-processors", kList, "Python code cannot be loaded", ""},
    {"enable-lora", kSwitch, kNoLora, ""},
    {"lora-modules", kList, kNoLora, ""},
    {"max-loras", kValue, kNoLora},
    {"max-lora-rank", kValue, kNoLora},
    {"ssl-keyfile", kValue, kNoTls, "", "--ssl-key-file"},
    {"ssl-certfile", kValue, kNoTls, "", "--ssl-cert-file"},
    {"ssl-ca-certs", kValue, kNoTls, ""},
    {"tensor-parallel-size", kValue, "tensor parallelism is not supported yet", "1"},
    {"pipeline-parallel-size", kValue, "pipeline parallelism is not supported yet", "1"},
    {"data-parallel-rank", kValue, kOneProcess, "0"},
    {"data-parallel-size-local", kValue, kOneProcess, "1"},
    {"prefill-context-parallel-size", kValue, kNoParallel, "1"},
    {"decode-context-parallel-size", kValue, kNoParallel, "1"},
    {"method", kValue, kNoSpeculation, "none"},
    {"draft-model", kValue, kNoSpeculation, "none", "--model-draft"},
    {"speculative-config", kValue, kNoSpeculation, "{}|none"},
    {"kv-transfer-config", kValue, "KV transfer is not supported yet", "{}"},
    {"kv-events-config", kValue, "KV events are switched on with ATOM_KV_EVENTS_ENABLE=1", "{}"},
    // llama-server
    {"n-gpu-layers", kValue, kNoGpu, nullptr, "--gpu-layers"},
    {"split-mode", kValue, kNoGpu},
    {"tensor-split", kValue, kNoGpu},
    {"main-gpu", kValue, kNoGpu},
    {"flash-attn", kOptional, "attention never stores its scores"},
    {"batch-size", kValue, "--max-num-batched-tokens says how many tokens a step computes", nullptr, "-b"},
    {"ubatch-size", kValue, "--max-num-batched-tokens says how many tokens a step computes"},
    {"threads-batch", kValue, "--threads counts for prompts too"},
    {"cache-type-k", kValue, kCacheTypes, ""},
    {"cache-type-v", kValue, kCacheTypes, ""},
    {"cont-batching", kSwitch, "requests are always batched"},
    {"mlock", kSwitch, "weights are mapped; the system keeps what is used"},
    {"no-mmap", kSwitch, "weights are mapped; the system keeps what is used"},
    {"numa", kValue, "threads are pinned by the engine"},
    {"jinja", kSwitch, "templates are Jinja anyway"},
    {"metrics", kSwitch, "/metrics answers anyway"},
    {"props", kSwitch, "/props answers anyway"},
    {"slots", kSwitch, "/metrics and /load tell what runs"},
    {"no-slots", kSwitch, "/metrics and /load tell what runs"},
    {"slot-save-path", kValue, "there are no slots to save", ""},
    {"cache-reuse", kValue, "equal prompt beginnings are always reused"},
    {"cache-ram", kValue, "--kv-cache-memory-bytes says how much memory the cache takes"},
    {"no-context-shift", kSwitch, "a full context ends the answer anyway"},
    {"context-shift", kSwitch, "a full context ends the answer", ""},
    {"warmup", kSwitch, "the first request needs no warm-up"},
    {"no-warmup", kSwitch, "the first request needs no warm-up"},
    {"log-disable", kSwitch, "the log is short, on standard error"},
    {"log-file", kValue, "the log goes to standard error"},
    {"verbose", kSwitch, "set ISOTOPE_LOG_LEVEL", nullptr, "-v,--log-verbose"},
    {"verbosity", kValue, "set ISOTOPE_LOG_LEVEL"},
    {"timeout", kValue, "quiet clients are given up after 60 seconds"},
    {"reasoning-format", kValue, kReads},
    {"embedding", kSwitch, "every model that can make embeddings does", nullptr, "--embeddings"},
    {"reranking", kSwitch, "every model that can score pairs of texts does", nullptr, "--rerank"},
    {"lora", kValue, kNoLora, ""},
    {"lora-scaled", kValue, kNoLora, ""},
    {"api-key-file", kValue, "give --api-key, or set ISOTOPE_API_KEY", ""},
    {"path", kValue, "no files are served", ""},
    {"hf-repo", kValue, kNoHub, ""},
    {"model-url", kValue, kNoHub, ""},
    {"mmproj", kValue, kTextOnly, ""},
    {"grammar", kValue, kFormOfRequest, ""},
    {"grammar-file", kValue, kFormOfRequest, ""},
    {"json-schema", kValue, kFormOfRequest, ""},
    {"n-predict", kValue, "write it as --override-generation-config '{\"max_new_tokens\": N}'", "-1", "-n,--predict"},
    {"temp", kValue, kDefaults, "", "--temperature"},
    {"top-k", kValue, kDefaults, ""},
    {"top-p", kValue, kDefaults, ""},
    {"min-p", kValue, kDefaults, ""},
    {"repeat-penalty", kValue, kDefaults, ""},
    {"rope-scaling", kValue, kRope, ""},
    {"rope-scale", kValue, kRope, ""},
    {"rope-freq-base", kValue, kRope, ""},
    {"rope-freq-scale", kValue, kRope, ""},
    {"override-kv", kValue, kRope, ""},
};

// Flags of several letters behind one hyphen, which the parser would read letter by letter.
constexpr std::pair<std::string_view, std::string_view> kShort[] = {
    {"-tp", "--tensor-parallel-size"},
    {"-pp", "--pipeline-parallel-size"},
    {"-dp", "--data-parallel-size"},
    {"-dpr", "--data-parallel-rank"},
    {"-dpl", "--data-parallel-size-local"},
    {"-pcp", "--prefill-context-parallel-size"},
    {"-dcp", "--decode-context-parallel-size"},
    {"-ep", "--enable-expert-parallel"},
    {"-asc", "--api-server-count"},
    {"-cc", "--compilation-config"},
    {"-sc", "--speculative-config"},
    {"-ngl", "--n-gpu-layers"},
    {"-np", "--max-num-seqs"},
    {"-sm", "--split-mode"},
    {"-ts", "--tensor-split"},
    {"-mg", "--main-gpu"},
    {"-dev", "--device"},
    {"-fa", "--flash-attn"},
    {"-ub", "--ubatch-size"},
    {"-tb", "--threads-batch"},
    {"-ctk", "--cache-type-k"},
    {"-ctv", "--cache-type-v"},
    {"-cb", "--cont-batching"},
    {"-md", "--draft-model"},
    {"-hf", "--hf-repo"},
    {"-hfr", "--hf-repo"},
    {"-mu", "--model-url"},
    {"-mm", "--mmproj"},
    {"-to", "--timeout"},
    {"-lv", "--verbosity"},
};

std::string hyphens(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

bool has_name(const Row& r, std::string_view flag) {
  if (!flag.starts_with("--")) return false;
  const std::string name = hyphens(flag.substr(2));
  return name == r.name || (r.more != nullptr && ("," + std::string(r.more) + ",").find(",--" + name + ",") != std::string::npos);
}

const Row* row_of(std::string_view flag) {
  for (const Row& r : kRows) {
    if (has_name(r, flag)) return &r;
  }
  return nullptr;
}

bool among(const std::string& value, std::string_view list) {
  while (!list.empty()) {
    const size_t bar = std::min(list.find('|'), list.size());
    if (list.substr(0, bar) == value) return true;
    list.remove_prefix(std::min(bar + 1, list.size()));
  }
  return false;
}

// Words that may be the value of a flag that may stand alone; anything else is the next argument.
bool optional_value(std::string_view word) {
  constexpr std::string_view kWords[] = {"on", "off", "auto", "all", "prefill", "true", "false", "0", "1", "none", "empty", "zero", "xavier"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

bool list_value(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

void ForeignFlags::add(CLI::App& app) {
  for (const Row& r : kRows) {
    const std::string names = spellings(r.name, r.more != nullptr ? r.more : "");
    std::string& value = values_[r.name];
    CLI::Option* o = r.shape == kSwitch ? app.add_flag(names) : app.add_option(names, value)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    const std::string only(r.only != nullptr ? r.only : "");
    o->description((r.only == nullptr ? "no effect: " : only.empty() ? "refused: " : "only " + only + ": ") + r.why)->group("");
    options_[r.name] = o;
  }
}

Result<void> ForeignFlags::check() const {
  for (const Row& r : kRows) {
    if (r.only == nullptr || options_.at(r.name)->count() == 0) continue;
    const std::string& value = values_.at(r.name);
    if (r.shape != kSwitch && among(value, r.only)) continue;
    const std::string got = r.shape == kSwitch ? "" : ", got '" + value + "'";
    return fail(Code::unsupported, r.why + got, std::string("--") + r.name, "leave the flag out");
  }
  return {};
}

std::vector<std::string> ForeignFlags::notes() const {
  std::vector<std::string> out;
  for (const Row& r : kRows) {
    if (r.only == nullptr && options_.at(r.name)->count() > 0) out.push_back(std::string("--") + r.name + " has no effect: " + r.why);
  }
  return out;
}

std::vector<std::string> written_out(const std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string flag = arguments[i];
    if (!flag.starts_with('-')) {
      out.push_back(std::move(flag));
      continue;
    }
    const size_t name_end = std::min(flag.find_first_of("=."), flag.size());
    for (const auto& [brief, full] : kShort) {
      if (std::string_view(flag).substr(0, name_end) != brief) continue;
      flag = std::string(full) + flag.substr(name_end);
      break;
    }
    // --compilation-config.mode=3: which key it is does not matter for a flag that has no effect or is refused.
    const size_t dot = flag.find('.');
    if (dot < flag.find('=') && row_of(std::string_view(flag).substr(0, dot)) != nullptr) flag.erase(dot, std::min(flag.find('='), flag.size()) - dot);
    const Row* r = flag.find('=') == std::string::npos ? row_of(flag) : nullptr;
    if (r != nullptr && r->shape == kOptional) {
      const bool has_value = i + 1 < arguments.size() && optional_value(arguments[i + 1]);
      flag += "=" + (has_value ? arguments[++i] : std::string("auto"));
    } else if (r != nullptr && r->shape == kList && i + 1 < arguments.size()) {
      flag += "=" + arguments[++i];
      while (i + 1 < arguments.size() && list_value(arguments[i + 1])) flag += "," + arguments[++i];
    }
    out.push_back(std::move(flag));
  }
  return out;
}

}  // namespace isotope::app
