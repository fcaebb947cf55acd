// isotope bench: prompt, generation and batched generation speed. It measures the engine's real path, scheduler, sampler and
// events included, on random token ids, so that a number here is what a server with that load would reach.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>

#include "base/team.h"
#include "base/topology.h"
#include "bench_load.h"
#include "bench_report.h"
#include "bench_serve.h"
#include "bench_simulate.h"
#include "commands.h"
#include "flags.h"
#include "kernels/cpu/pick.h"
#include "model_path.h"
#include "output.h"
#include "text/token_texts.h"
#include "usage.h"

namespace isotope::app {
namespace {

struct Options {
  std::vector<std::string> models;
  std::vector<int64_t> prompt{512}, gen{128}, depth{0}, batch{2048}, parallel{1};
  std::vector<int> threads{0};
  int repetitions = 5, turns = 0;
  std::string kv = "bf16", isa, online_quant_config, load_dummy;
  bool keep_mtp = true;
  bool json = false, no_warmup = false, explain = false;
  SimulateFlags simulate;
};

const std::map<std::string, KvType> kKvTypes = {
    {"f32", KvType::f32}, {"f16", KvType::f16}, {"bf16", KvType::bf16}, {"int8", KvType::int8}, {"fp8", KvType::fp8}};

std::string utc_now() {
  const std::time_t t = std::time(nullptr);
  std::tm tm{};
  gmtime_r(&t, &tm);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
  return text;
}

class Bench {
 public:
  explicit Bench(const Options& o) : options_(o), cpu_(base::cpu_name()) {}

  Result<std::vector<BenchRow>> run(const levers::Levers& levers, const std::map<std::string, std::string>& environment) {
    const auto any = [](const std::vector<int64_t>& v) { return std::any_of(v.begin(), v.end(), [](int64_t n) { return n > 0; }); };
    if (!any(options_.parallel) || (!any(options_.prompt) && !any(options_.gen)))
      return fail(Code::invalid_argument, "there is nothing to measure: zeros make no row", "-p, -n, -npl",
                  "ask for a prompt or generated tokens, of one sequence or more");
    for (const std::string& name : options_.models) {
      ISO_TRY(const std::string path, model_path(name, environment));
      for (const int64_t batch : options_.batch)
        for (const int threads : options_.threads) ISO_CHECK_OK(run_engine(path, batch, threads, levers));
    }
    show_progress("");
    return std::move(rows_);
  }

 private:
  Result<void> run_engine(const std::string& path, int64_t batch, int threads, const levers::Levers& levers) {
    EngineOptions eo{.model = path,
                     .kv_type = kKvTypes.at(options_.kv),
                     .threads = thread_count(threads, levers),
                     .max_num_batched_tokens = batch,
                     .isa = options_.isa,
                     .online_quant_config = options_.online_quant_config,
                     .keep_mtp = options_.keep_mtp,
                     .token_texts = text::read_token_texts,
                     .load_dummy = options_.load_dummy};
    for (const int64_t n : options_.parallel) eo.max_num_seqs = std::max(eo.max_num_seqs, int(n));
    ops::MachineLimits limits;
    if (options_.explain || options_.turns) {
      eo.profile = std::make_shared<StepProfile>();
      ISO_TRY(limits, machine_limits(eo, levers));
    }
    if (options_.turns) {
      ISO_TRY(reader_, Reader::make(eo, levers));
    }
    show_progress("loading " + path);
    ISO_TRY(const auto engine, Engine::open(eo, levers));
    ISO_CHECK_OK(check_context(engine->info()));
    BenchRow row{.model = engine->info(),
                 .cpu = cpu_,
                 .kv_type = options_.kv,
                 .threads = eo.threads ? eo.threads : base::machine().default_threads(),
                 .batch = batch,
                 .limits = limits};
    profile_ = eo.profile.get();
    for (const int64_t depth : options_.depth)
      for (const int64_t parallel : options_.parallel) {
        row.depth = depth;
        row.parallel = parallel;
        for (const int64_t n : options_.prompt) ISO_CHECK_OK(measure(*engine, row, n, 0));
        for (const int64_t n : options_.gen) ISO_CHECK_OK(measure(*engine, row, 0, n));
      }
    return {};
  }

  /// Before the first measurement, so that nothing measured is lost.
  Result<void> check_context(const ModelInfo& m) const {
    const auto most = [](const std::vector<int64_t>& v) { return v.empty() ? 0 : *std::max_element(v.begin(), v.end()); };
    const int64_t depth = most(options_.depth), prompt = most(options_.prompt), gen = most(options_.gen);
    const int64_t needed = depth + std::max(prompt, gen > 0 ? gen + 2 : 0);
    if (needed <= m.max_model_len) return {};
    return fail(Code::invalid_argument,
                fmt::format("{} tokens (depth {}, then {} of prompt or {} generated) are more than the context of {} holds", needed, depth, prompt, gen,
                            m.max_model_len),
                "-d, -p, -n", "give fewer");
  }

  /// Reads memory as the engine's team could.
  class Reader {
   public:
    static Result<std::unique_ptr<Reader>> make(const EngineOptions& o, const levers::Levers& levers) {
      auto r = std::make_unique<Reader>();
      ISO_TRY(r->kernels_, kernels::cpu::pick_isa(o.isa.empty() ? levers.cpu().isa : o.isa));
      ISO_TRY(r->memory_, ops::ReadTest::make());
      r->team_ = std::make_unique<base::Team>(o.threads ? o.threads : base::machine().default_threads());
      return r;
    }
    double seconds(int64_t bytes) const { return memory_.seconds(*team_, *kernels_, bytes); }

   private:
    const kernels::cpu::KernelTable* kernels_ = nullptr;
    ops::ReadTest memory_;
    std::unique_ptr<base::Team> team_;
  };

  static Result<ops::MachineLimits> machine_limits(const EngineOptions& o, const levers::Levers& levers) {
    ISO_TRY(const auto* kernels, kernels::cpu::pick_isa(o.isa.empty() ? levers.cpu().isa : o.isa));
    const int threads = o.threads ? o.threads : base::machine().default_threads();
    base::Team team(threads);
    return ops::measure_limits(team, *kernels, 1.5);
  }

  Result<void> measure(Engine& engine, BenchRow row, int64_t prompt, int64_t gen) {
    if (prompt + gen == 0 || row.parallel == 0) return {};
    row.prompt = prompt;
    row.gen = gen;
    row.time = utc_now();
    for (int i = options_.no_warmup ? 0 : -1; i < options_.repetitions; ++i) {
      show_progress(fmt::format("{} npl {}: {}", row.name(), row.parallel,
                           i < 0 ? "warm-up" : fmt::format("{}/{}", i + 1, options_.repetitions)));
      ISO_TRY(const int64_t ns, load_.once(engine, {.prompt = row.prompt, .gen = row.gen, .depth = row.depth, .parallel = row.parallel}, profile_, &times_));
      if (i >= 0) row.samples_ns.push_back(ns);
    }
    if (profile_) row.profile = std::move(times_);
    if (reader_ && gen) {
      ISO_TRY(row.read_shares, turns(engine, row));
    }
    rows_.push_back(std::move(row));
    return {};
  }

  /// A few steps, then reading as many bytes, and so on: a machine whose bandwidth changes from second to second gives the same to both.
  Result<std::vector<double>> turns(Engine& engine, const BenchRow& row) {
    constexpr int64_t kSteps = 4;
    std::vector<double> shares;
    double before = 0;
    for (int i = 0; i <= options_.turns; ++i) {  // the first finds no reading before it
      show_progress(fmt::format("{} npl {}: turn {}/{}", row.name(), row.parallel, i, options_.turns));
      ISO_TRY(const int64_t ns, load_.once(engine, {.gen = kSteps, .depth = row.depth, .parallel = row.parallel}, profile_, &times_));
      int64_t bytes = 0;
      for (const OpTime& o : times_.ops) bytes += o.bytes;
      bytes /= std::max<int64_t>(1, times_.steps);
      const double after = reader_->seconds(bytes * kSteps);
      if (i) shares.push_back((before + after) / 2 / (double(ns) * 1e-9));
      before = after;
    }
    return shares;
  }

  const Options& options_;
  std::string cpu_;
  BenchLoad load_;
  StepProfile* profile_ = nullptr;
  std::unique_ptr<Reader> reader_;  ///< for turns
  StepTimes times_;  ///< of the last repetition
  std::vector<BenchRow> rows_;
};

Result<void> run(const Options& o, const Context& context) {
  ISO_TRY(const levers::Levers levers, resolve_levers(context));
  if (!o.simulate.trace.empty()) {
    ISO_TRY(const std::string text, o.simulate.run(levers, o.json));
    std::fputs(text.c_str(), stdout);
    return {};
  }
  ISO_TRY(const auto rows, Bench(o).run(levers, context.environment));
  out(o.json ? bench_json(rows) : bench_table(rows));
  return {};
}

}  // namespace

void add_bench(CLI::App& app, Context& context) {
  auto o = std::make_shared<Options>();
  CLI::App* sub =
      app.add_subcommand("bench", "prompt and generation speed, also of parallel sequences, through the whole engine");
  const auto size = CLI::Range(int64_t{0}, int64_t{1} << 30);
  sub->add_option("-m,--model,model", o->models, "GGUF file, Hugging Face folder or built-in name; several with commas")
      ->delimiter(',');
  sub->add_option("-p,--n-prompt", o->prompt, "prompt tokens; 0 makes no row")
      ->delimiter(',')
      ->check(size)
      ->capture_default_str();
  sub->add_option("-n,--n-gen", o->gen, "generated tokens; 0 makes no row")->delimiter(',')->check(size)->capture_default_str();
  sub->add_option("-d,--n-depth", o->depth, "tokens in the cache before")->delimiter(',')->check(size)->capture_default_str();
  sub->add_option("-b,--batch-size", o->batch, "most tokens of a step")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
      ->capture_default_str();
  sub->add_option("--npl,--n-parallel", o->parallel, "parallel sequences (also: -npl)")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 16))
      ->capture_default_str();
  sub->add_option("-t,--threads", o->threads, "0 = one a physical core")
      ->delimiter(',')
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  sub->add_option("-r,--repetitions", o->repetitions, "times each test runs")->check(CLI::Range(1, 1000))->capture_default_str();
  sub->add_option("--kv", o->kv, "KV cache type")->check(CLI::IsMember(kKvTypes))->capture_default_str();
  sub->add_option("--isa", o->isa, "force an instruction set");
  sub->add_option(spellings("online-quant-config"), o->online_quant_config, "JSON object: to which formats linear layers are quantized while they load");
  sub->add_flag("!--no-mtp,!--no_mtp,!--no-nextn", o->keep_mtp, "leave out multi-token-prediction heads");
  sub->add_option(spellings("load-dummy"), o->load_dummy, "weights out of nothing, shaped by config.json alone")->check(CLI::IsMember({"zero", "empty", "xavier"}));
  sub->add_flag("--json", o->json, "a JSON array with llama-bench's key names");
  sub->add_flag("--explain", o->explain, "also time each op: bytes, operations, share of the machine's limit, and what bounds the step");
  sub->add_option("--turns", o->turns, "with generation: also that many turns of a few steps and of reading as many bytes, for the share of the read bandwidth")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
  sub->add_flag("--no-warmup", o->no_warmup, "count the first run too");
  add_bench_serve(*sub, context);
  o->simulate.add(*sub);
  sub->callback([o, sub, &context] {
    if (!sub->get_subcommands().empty()) {  // that one says what to run
      if (!o->models.empty()) throw CLI::ValidationError("bench serve", "'" + o->models.front() + "' is no option of it; the model is named with --model behind serve, the server with --base-url");
      return;
    }
    if (o->models.empty() && o->simulate.trace.empty()) throw CLI::RequiredError("--model (or --simulate)");
    context.run = [o, &context] {
      const auto done = run(*o, context);
      return done ? 0 : report(done.error());
    };
  });
}

}  // namespace isotope::app
