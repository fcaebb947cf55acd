// isotope doctor: what this machine is, what the engine chose on it and why, and how near to the machine's limits it comes.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/cgroup.h"
#include "base/team.h"
#include "base/topology.h"
#include "commands.h"
#include "direct.h"
#include "isotope/engine.h"
#include "kernels/cpu/pick.h"
#include "model_path.h"
#include "models/model.h"
#include "ops/cpu/limits.h"
#include "output.h"
#include "text/token_texts.h"
#include "usage.h"
#include "weights/checkpoint.h"

namespace isotope::app {

namespace {

using Json = nlohmann::ordered_json;

std::string mib(uint64_t bytes) {
  if (bytes >= uint64_t{1} << 30) return fmt::format("{:.1f} GiB", double(bytes) / (1 << 30));
  if (bytes >= uint64_t{1} << 20) return fmt::format("{:.1f} MiB", double(bytes) / (1 << 20));
  return fmt::format("{} KiB", bytes >> 10);
}

/// One fact: a key for --json and a line for people.
struct Report {
  Json json;
  std::string text;
  void add(const std::string& key, Json value, const std::string& line) {
    json[key] = std::move(value);
    text += line + "\n";
  }
};

void describe_isa(Report& r, const kernels::cpu::KernelTable& chosen) {
  Json all = Json::array();
  std::string lines;
  for (const auto& c : kernels::cpu::isa_candidates()) {
    const bool is_chosen = c.isa == chosen.isa;
    all.push_back({{"isa", c.isa}, {"runnable", c.runnable}, {"chosen", is_chosen}, {"reason", c.reason}});
    lines += fmt::format("  {} {:<12} {}\n", is_chosen ? "*" : " ", c.isa, c.reason);
  }
  r.add("isa", chosen.isa, fmt::format("Instruction set: {}", chosen.isa));
  r.json["isa_candidates"] = all;
  r.text += lines;
}

void describe_topology(Report& r, int threads) {
  const base::Topology& t = base::machine();
  const std::string quota = t.quota ? fmt::format("{:.2f} CPUs", *t.quota) : "none";
  r.add("cores", t.cores.size(), fmt::format("Cores: {} physical, {} logical in this process' cpuset; container quota: {}", t.cores.size(), t.logical_cpus, quota));
  r.json["logical_cpus"] = t.logical_cpus;
  r.json["cpu_quota"] = t.quota ? Json(*t.quota) : Json();
  r.add("threads", threads, fmt::format("Threads: {}{}", threads, threads == t.default_threads() ? " (one a physical core, cut to the quota)" : " (as asked)"));
  std::string line = "Caches:";
  Json caches = Json::array();
  for (const auto& c : t.caches) {
    line += fmt::format(" L{} {} × {}", c.level, mib(c.bytes), c.count);
    if (c.cores_sharing > 1) line += fmt::format(" (shared by {} cores)", c.cores_sharing);
    line += &c == &t.caches.back() ? "" : ",";
    caches.push_back({{"level", c.level}, {"bytes", c.bytes}, {"count", c.count}, {"cores_sharing", c.cores_sharing}});
  }
  r.add("caches", caches, line);
  r.add("numa_nodes", t.nodes.size(), fmt::format("NUMA nodes: {}", t.nodes.size()));
  r.add("memory_available", base::available_memory(), fmt::format("Memory: {} available of {}", mib(base::available_memory()), mib(base::total_memory())));
}

/// Bytes that one generated token reads: every weight but the embedding table, of which a single row is read unless it is the head as well.
uint64_t bytes_per_token(const weights::Checkpoint& c, bool tied) {
  uint64_t sum = 0;
  for (const auto& t : c.tensors()) {
    const bool embedding = t.name == "token_embd.weight" || t.name.ends_with("embed_tokens.weight");
    if (!embedding || tied) sum += t.bytes;
  }
  return sum;
}

/// Speed of greedy generation in tokens per second, from the first token to the last of `tokens`.
Result<double> generation_speed(Engine& engine, int tokens) {
  using Clock = std::chrono::steady_clock;
  struct Seen {
    std::mutex m;
    std::condition_variable done;
    Clock::time_point first, last;
    int count = 0;
    bool finished = false;
    std::optional<Error> error;
  };
  auto seen = std::make_shared<Seen>();
  Request r;
  r.id = 1;
  r.prompt = {1, 2, 3, 4};
  r.sampling.temperature = 0;
  r.sampling.max_tokens = tokens;
  r.sampling.ignore_eos = true;
  r.sink = [seen](const TokenEvent& e) {
    std::lock_guard lock(seen->m);
    seen->last = Clock::now();
    if (seen->count == 0) seen->first = seen->last;
    seen->count += int(e.tokens.size());
    seen->error = e.error;
    if (e.finish != FinishReason::none) seen->finished = true, seen->done.notify_one();
  };
  ISO_CHECK_OK(engine.submit(std::move(r)));
  std::unique_lock lock(seen->m);
  seen->done.wait(lock, [&] { return seen->finished; });
  if (seen->error) return tl::unexpected(*seen->error);
  return (seen->count - 1) / std::chrono::duration<double>(seen->last - seen->first).count();
}

Result<double> measured_generation(const std::string& path, const levers::Levers& levers, int threads) {
  EngineOptions o;
  o.model = path;
  o.token_texts = text::read_token_texts;
  o.threads = threads;
  o.isa = levers.cpu().isa;
  o.max_num_seqs = 1;
  o.max_model_len = 512;
  ISO_TRY(auto engine, Engine::open(o, levers));
  return generation_speed(*engine, 128);
}

Result<void> describe_model(Report& r, const std::string& path, const levers::Levers& levers, const ops::MachineLimits& limits, int threads) {
  ISO_TRY(auto checkpoint, weights::open_checkpoint(path, levers.loading()));
  ISO_CHECK_OK(refuse_encoder(*checkpoint, path));
  ISO_TRY(models::ModelConfig config, models::parse_config(*checkpoint));
  const uint64_t bytes = bytes_per_token(*checkpoint, config.tied_head);
  const double best = limits.read_bytes / double(bytes);
  r.add("model", path, fmt::format("Model: {} ({}, {} layers)", path, config.arch, config.layers));
  r.add("bytes_per_token", bytes, fmt::format("  reads {} of weights for each generated token: at best {:.0f} tokens/s", mib(bytes), best));
  r.json["best_tokens_per_s"] = best;
  ISO_TRY(const double got, measured_generation(path, levers, threads));
  r.add("measured_tokens_per_s", got, got <= best ? fmt::format("  measured {:.0f} tokens/s: {:.0f} % of that bound", got, 100 * got / best)
                                                   : fmt::format("  measured {:.0f} tokens/s: above that bound, since caches keep a part of such small weights", got));
  r.json["share_of_bound"] = got / best;
  return {};
}

}  // namespace

void add_doctor(CLI::App& app, Context& context) {
  struct Options {
    std::string model;
    int threads = 0;
    bool json = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("doctor", "what this machine can do, what was chosen and why, and how near the limit it runs");
  sub->add_option("model", o->model, "a model: adds its best possible speed and the share reached");
  sub->add_option("-t,--threads", o->threads, "threads; 0 = one for each physical core")->check(CLI::Range(0, 4096));
  sub->add_flag("--json", o->json, "as JSON");
  sub->callback([o, &context] {
    context.run = [o, &context] {
      const auto levers = resolve_levers(context);
      if (!levers) return report(levers.error());
      const auto kernels = kernels::cpu::pick_isa(levers->cpu().isa);
      if (!kernels) return report(kernels.error());
      const int asked = thread_count(o->threads, *levers);
      const int threads = asked > 0 ? asked : base::machine().default_threads();
      Report r;
      r.add("version", ISOTOPE_VERSION, "Isotope " ISOTOPE_VERSION);
      describe_isa(r, **kernels);
      describe_topology(r, threads);
      if (isatty(2)) std::fputs("measuring…\r", stderr);
      ops::MachineLimits limits;
      {
        base::Team team(threads);
        limits = ops::measure_limits(team, **kernels, 2.0);
      }
      r.add("read_bytes_per_s", limits.read_bytes, fmt::format("Memory bandwidth: {:.1f} GB/s reading with {} threads", limits.read_bytes / 1e9, threads));
      r.add("bf16_ops_per_s", limits.bf16_ops, fmt::format("bf16 peak: {:.0f} Gop/s with {} threads", limits.bf16_ops / 1e9, threads));
      r.add("float_ops_per_s", limits.float_ops, fmt::format("float32 peak: {:.0f} Gop/s with {} threads", limits.float_ops / 1e9, threads));
      r.add("int8_ops_per_s", limits.int8_ops, fmt::format("int8 peak: {:.0f} Gop/s with {} threads", limits.int8_ops / 1e9, threads));
      if (!o->model.empty()) {
        const auto path = model_path(o->model, context.environment);
        if (!path) return report(path.error());
        if (const auto done = describe_model(r, *path, *levers, limits, threads); !done) return report(done.error());
      }
      out(o->json ? r.json.dump(2) + "\n" : r.text);
      return 0;
    };
  });
}

}  // namespace isotope::app
