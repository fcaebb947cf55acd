// isotope tune: measures on this machine what the built-in choices of speed were measured for on another, and stores what is better beyond noise.
// None of it changes a result.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/others.h"
#include "base/topology.h"
#include "bench_load.h"
#include "commands.h"
#include "model_path.h"
#include "output.h"
#include "text/token_texts.h"
#include "tuned.h"

namespace isotope::app {

namespace {

using Settings = std::map<std::string, std::string>;

struct Options {
  std::string model;
  int pairs = 5;
  bool reset = false, dry_run = false;
};

/// A prompt, plain generation, and some sequences at once: the better choice must not make the others pay.
constexpr BenchCase kCases[] = {{.prompt = 256}, {.gen = 32}, {.gen = 16, .parallel = 8}};

constexpr double kBusyCores = 0.25;

struct Knob {
  const char* name;
  std::vector<int64_t> values;
};

std::vector<Knob> knobs() {
  std::vector<int64_t> threads;
  const int cores = int(base::machine().cores.size()), logical = base::machine().logical_cpus;
  for (const int n : {cores / 2, cores - 1, cores, logical})
    if (n >= 1 && n != base::machine().default_threads() && std::find(threads.begin(), threads.end(), n) == threads.end()) threads.push_back(n);
  return {{"ISOTOPE_CPU_THREADS", threads},
          {"ISOTOPE_CPU_LINEAR_ALONE", {2'000, 32'000}},
          {"ISOTOPE_CPU_ATTENTION_ALONE", {25'000, 400'000}},
          {"ISOTOPE_CPU_PASS_KIB", {160, 320, 1280}}};
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + std::ptrdiff_t(v.size() / 2), v.end());
  return v[v.size() / 2];
}

class Tuner {
 public:
  Tuner(const Options& o, const Context& c, std::string path) : options_(o), context_(c), path_(std::move(path)) {}

  Result<Settings> run() {
    ISO_TRY(auto best, open({}));
    ISO_TRY(auto twin, open({}));
    const base::Others others;
    ISO_TRY(const double same, compare(*best, *twin, "the same against itself"));
    // Beside them fewer threads do win, for as long as they run.
    if (const double cores = others.cores(); cores > kBusyCores && !options_.dry_run)
      return fail(Code::resource_exhausted, fmt::format("other programs used {:.1f} cores while the default was measured", cores), "tune",
                  "stop them and tune again; --dry-run measures all the same and stores nothing");
    // The same program against itself shows how far chance goes.
    const double noise = std::max(0.02, 2 * std::abs(same - 1));
    print("{:<32} {:>10}   noise {:.1f} %\n", "default", "", 100 * noise);
    twin.reset();
    Settings chosen;
    for (const Knob& knob : knobs()) {
      for (const int64_t value : knob.values) {
        Settings tried = chosen;
        tried[knob.name] = std::to_string(value);
        ISO_TRY(auto other, open(tried));
        ISO_TRY(double gain, compare(*best, *other, fmt::format("{} = {}", knob.name, value)));
        bool better = gain > 1 + noise;
        if (better) {  // once more: of many candidates one always has luck
          ISO_TRY(const double again, compare(*best, *other, fmt::format("{} = {} once more", knob.name, value)));
          gain = std::min(gain, again);
          better = gain > 1 + noise;
        }
        out_now(fmt::format("{:<32} {:>10}   {:+.1f} %{}\n", knob.name, value, 100 * (gain - 1), better ? "   taken" : ""));
        if (!better) continue;
        chosen = tried;
        best = std::move(other);
      }
    }
    return chosen;
  }

 private:
  Result<std::unique_ptr<Engine>> open(const Settings& settings) {
    Context c = context_;
    for (const auto& [name, text] : settings) c.set.push_back(name + "=" + text);
    ISO_TRY(const levers::Levers levers, resolve_levers(c));
    return Engine::open({.model = path_, .max_model_len = 2048, .kv_bytes = int64_t{256} << 20, .max_num_seqs = 8, .token_texts = text::read_token_texts}, levers);
  }

  /// How many times as fast `other` is: the geometric mean over the cases of the median over pairs, which alternate in order.
  Result<double> compare(Engine& best, Engine& other, const std::string& what) {
    double log_sum = 0;
    for (const BenchCase& c : kCases) {
      std::vector<double> ratios;
      for (int i = 0; i <= options_.pairs; ++i) {
        show_progress(fmt::format("{}: {}/{}", what, i, options_.pairs));
        double ns[2];
        for (int k = 0; k < 2; ++k) {
          const bool first = (i + k) % 2 == 0;
          ISO_TRY(const int64_t t, load_.once(first ? best : other, c));
          ns[first ? 0 : 1] = double(t);
        }
        if (i > 0) ratios.push_back(ns[0] / ns[1]);  // the first pair warms up
      }
      log_sum += std::log(median(ratios));
    }
    show_progress("");
    return std::exp(log_sum / double(std::size(kCases)));
  }

  const Options& options_;
  const Context& context_;
  std::string path_;
  BenchLoad load_;
};

Result<void> run(const Options& o, const Context& context) {
  const std::string where = tuned_path(context.environment);
  if (o.reset) {
    const bool gone = !where.empty() && ::unlink(where.c_str()) == 0;
    print("{}\n", gone ? "removed " + where : "there was no profile for this machine");
    return {};
  }
  ISO_TRY(const std::string path, model_path(o.model, context.environment));
  // What an earlier run stored must not be the measure of this one.
  Context plain = context;
  for (const char* name : {"HOME", "XDG_CONFIG_HOME"}) plain.environment.erase(name);
  ISO_TRY(const Settings chosen, Tuner(o, plain, path).run());
  if (o.dry_run) return {};
  ISO_CHECK_OK(write_tuned(where, chosen, fmt::format("isotope tune with {}; `isotope tune --reset` removes it", path)));
  if (chosen.empty()) print("The built-in choices are as good as any here. Stored in {}\n", where);
  else print("Stored in {}; `isotope levers --changed` shows it\n", where);
  return {};
}

}  // namespace

void add_tune(CLI::App& app, Context& context) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("tune", "measure thread count, tile sizes and crossovers on this machine and store what is faster; results never change");
  sub->add_option("model", o->model, "GGUF file, Hugging Face folder or built-in name to measure with")->default_str("smollm2-135m");
  sub->add_option("--pairs", o->pairs, "interleaved pairs for each comparison")->check(CLI::Range(3, 100))->capture_default_str();
  sub->add_flag("--dry-run", o->dry_run, "measure and print, store nothing");
  sub->add_flag("--reset", o->reset, "remove what was stored for this machine");
  sub->callback([o, &context] {
    context.run = [o, &context] {
      if (o->model.empty()) o->model = "smollm2-135m";
      const auto done = run(*o, context);
      return done ? 0 : report(done.error());
    };
  });
}

}  // namespace isotope::app
