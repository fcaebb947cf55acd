// From a path to a running engine: files, configuration, weights, KV memory.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "base/hash.h"
#include "base/log.h"
#include "base/topology.h"
#include "engine/model_runner.h"
#include "engine/ops_options.h"
#include "engine/parts.h"
#include "engine/pool_engine.h"
#include "engine/ranks.h"
#include "engine/kv_costs.h"
#include "engine/sizing.h"
#include "engine/state_replay.h"
#include "levers/levers.h"
#include "engine/events.h"
#include "models/config.h"
#include "models/dummy.h"
#include "models/engram_vocab.h"
#include "models/glm_settings.h"
#include "models/model.h"
#include "ops/metered.h"
#include "weights/checkpoint.h"
#include "weights/metadata.h"
#include "weights/online.h"
#include "weights/pooling_facts.h"
#include "weights/summary.h"

namespace isotope {

namespace {

using base::LogLevel;

struct Limit {
  const char* name;
  int64_t value, least, most;
};

Result<void> check_options(const EngineOptions& o) {
  const Limit limits[] = {{"--max-num-seqs", o.max_num_seqs, 1, 1 << 20},
                          {"--max-num-batched-tokens", o.max_num_batched_tokens, 1, 1 << 24},
                          {"--max-queue", o.max_queue, 0, INT32_MAX},
                          {"--queue-timeout-ms", o.queue_timeout_ms, 0, INT32_MAX},
                          {"--max-model-len", o.max_model_len, 0, INT32_MAX},
                          {"--kv-cache-memory-bytes", o.kv_bytes, 0, INT64_MAX},
                          {"--long-prefill-token-threshold", o.long_prefill_token_threshold, 0, INT32_MAX},
                          {"--preempt-every", o.preempt_every, 0, INT32_MAX},
                          {"--data-parallel-size", o.data_parallel_size, 0, 1024},
                          {"--data-parallel-rank", o.first_rank, 0, 1 << 20}};
  for (const Limit& l : limits)
    if (l.value < l.least || l.value > l.most)
      return fail(Code::invalid_argument, fmt::format("{} is {}", l.name, l.value), l.name,
                  fmt::format("use a number from {} to {}", l.least, l.most));
  if (o.block_size < 16 || o.block_size > 4096 || !std::has_single_bit(unsigned(o.block_size)))  // as the KV cache asks, before anything is loaded
    return fail(Code::invalid_argument, fmt::format("--block-size is {}", o.block_size), "--block-size", "use a power of two from 16 to 4096");
  if (!(o.memory_fraction > 0 && o.memory_fraction <= 1))
    return fail(Code::invalid_argument, fmt::format("the memory fraction is {}", o.memory_fraction), "--gpu-memory-utilization",
                "use a number above 0, at most 1");
  return {};
}

/// The model's files, or weights out of nothing, in the formats that were asked for.
Result<std::unique_ptr<weights::Checkpoint>> open_files(const EngineOptions& o, const levers::Loading& levers) {
  std::unique_ptr<weights::Checkpoint> files;
  if (o.load_dummy.empty()) {
    ISO_TRY(files, weights::open_checkpoint(o.model, levers));
  } else {
    ISO_TRY(files, models::dummy_checkpoint(o.model, o.load_dummy));
  }
  if (o.online_quant_config.empty()) return files;
  return weights::quantize_online(std::move(files), o.online_quant_config);
}

std::string_view kv_type_name(KvType t) {
  constexpr std::string_view kNames[] = {"f32", "f16", "bf16", "int8", "fp8"};
  return kNames[size_t(t)];
}

KvType kv_type(const EngineOptions& o) {
  return o.kv_type.value_or(o.precision == Precision::exact ? KvType::f32 : KvType::bf16);
}

/// Everything that may change a bit of a result. The thread count, which Ops::describe() names after the first comma, may not.
std::string fingerprint(const EngineOptions& o, const levers::Levers& levers, const ops::Ops& ops) {
  const std::string device = ops.describe();
  const std::string text =
      fmt::format("{}|{}|{}|{}|{:016x}{}", ISOTOPE_VERSION, device.substr(0, device.find(',')), kv_type_name(kv_type(o)),
                  o.precision == Precision::exact ? "exact" : "fast", levers.numeric_hash(), o.online_quant_config);
  return fmt::format("fp_{:010x}", base::xxh64(text) >> 24);
}

std::string display_name(const EngineOptions& o) {
  if (!o.served_name.empty()) return o.served_name;
  std::filesystem::path p(o.model);
  if (!p.has_filename()) p = p.parent_path();
  return p.extension() == ".gguf" ? p.stem().string() : p.filename().string();
}

std::vector<int32_t> end_ids(const models::ModelConfig& c, const VocabSource& v) {
  std::vector<int32_t> ids = c.eos_ids;
  for (const int32_t id : {v.eos_id, v.eot_id})
    if (id >= 0) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

/// What the options say, then the files, then what most models of that kind want.
Result<PoolingInfo> pooling_info(const EngineOptions& o, const weights::Checkpoint& files, Pooling usual) {
  weights::PoolingFacts facts;
  if (auto read = weights::pooling_facts(files, o.model)) facts = *std::move(read);
  else if (!o.pooling) return tl::unexpected(read.error());
  return PoolingInfo{.pooling = o.pooling.value_or(facts.pooling.value_or(usual)),
                     .normalize = o.normalize.value_or(facts.normalize.value_or(true)),
                     .max_tokens = facts.max_length,
                     .shortens = facts.shortens,
                     .lengths = facts.lengths};
}

ModelInfo describe(const EngineOptions& o, const models::ModelConfig& c, const weights::Checkpoint& files) {
  const weights::Summary sum = weights::summarize(files);
  return {.name = display_name(o),
          .architecture = c.arch,
          .path = o.model,
          .file_type = sum.file_type,
          .layers = c.layers,
          .hidden = c.hidden,
          .vocab = c.vocab,
          .parameters = sum.parameters,
          .weight_bytes = sum.bytes,
          .context_length = c.context_length,
          .eos_ids = end_ids(c, files.vocab())};
}

/// `cut_by`: the setting that cut the model's context, or empty.
Result<int64_t> wanted_length(const EngineOptions& o, const models::ModelConfig& c, const std::string& cut_by) {
  if (!cut_by.empty() && o.max_model_len > c.context_length)
    return fail(Code::invalid_argument, fmt::format("a context of {} tokens is asked for, with {} the model serves {}", o.max_model_len, cut_by, c.context_length),
                "--max-model-len", "lower it, or unset " + cut_by);
  if (o.max_model_len > c.context_length)
    return fail(
        Code::invalid_argument,
        fmt::format("a context of {} tokens is asked for, the model was trained for {}", o.max_model_len, c.context_length),
        "--max-model-len", "lower it, or set a rope scaling through --hf-overrides");
  return o.max_model_len ? o.max_model_len : c.context_length;
}

struct Storage {
  engine::KvSizing sizing;
  std::unique_ptr<ops::KvCache> kv;
  int64_t bytes_per_token = 0;
  engine::StateSizing states;
};

/// `images`: states of prefixes may be stored.
Result<Storage> make_storage(const EngineOptions& o, const models::Model& model, ops::Ops& ops, int64_t length, size_t budget, bool images) {
  Storage s;
  auto [costs, state_bytes] = engine::kv_costs(model, ops, o.block_size, kv_type(o));
  for (engine::KvGroupCost& g : costs) {
    // A group without layers costs what its bookkeeping does.
    g.block_bytes = std::max(g.block_bytes, size_t(o.block_size) * sizeof(int32_t) + 96);
    s.bytes_per_token += int64_t(g.block_bytes) / o.block_size;
  }
  if (costs.empty() || costs.size() > size_t(kv::kMaxGroups))
    return fail(Code::unsupported, fmt::format("the model has {} KV groups", costs.size()), o.model,
                fmt::format("1 to {} are supported", kv::kMaxGroups));
  ISO_TRY(s.states, engine::size_states(state_bytes, o, o.prefix_caching && images, budget));
  EngineOptions running = o;
  running.max_num_seqs = s.states.max_num_seqs;
  ISO_TRY(s.sizing, engine::size_kv(costs, running, length, budget - size_t(s.states.slots) * state_bytes));
  if (s.states.slots) {
    s.sizing.groups.push_back({.blocks = s.states.slots, .window = kv::kStateGroup});
    s.sizing.bytes += size_t(s.states.slots) * state_bytes;
  }
  std::vector<int64_t> blocks;
  for (const auto& g : s.sizing.groups) blocks.push_back(g.blocks);
  ISO_TRY(s.kv, ops.make_kv(model.kv_layers(), blocks, o.block_size, kv_type(o)));
  return s;
}

kv::CheckpointOptions checkpoints(const EngineOptions& o, const levers::PrefixCache& l) {
  kv::CheckpointOptions c{.demand = l.checkpoint_demand, .end_margin = l.checkpoint_end_margin};
  c.interval = l.checkpoint_interval.value_or(c.interval);
  c.midstep = l.checkpoint_midstep;
  c.check = l.checkpoint_check;
  if (c.interval <= 0 || c.interval % o.block_size == 0) return c;
  const int64_t snapped = c.interval / o.block_size * o.block_size;
  base::log(LogLevel::warning, "ATOM_STATE_CHECKPOINT_INTERVAL_TOKENS: {} is no multiple of the block size {}; {} is used{}", c.interval, o.block_size, snapped,
            snapped ? "" : ", which stores nothing");
  c.interval = snapped;
  return c;
}

int64_t replay_tokens(const models::Model& model, const EngineOptions& o, const levers::PrefixCache& l, bool tell) {
  if (!l.state_replay) return 0;
  const engine::StateReplay r = engine::state_replay(model.config(), model.kv_groups(), {.prefix_caching = o.prefix_caching});
  if (tell && r.tokens) base::log(LogLevel::info, "state replay: hits whose windows are gone compute their last {} tokens once more", r.tokens);
  if (tell && !r.tokens) base::log(LogLevel::warning, "ATOM_DSV4_STATE_REPLAY has no effect: {}", r.off);
  return r.tokens;
}

void announce(const Storage& s, const EngineOptions& o, const ModelInfo& info, int64_t wanted) {
  base::log(LogLevel::info, "{}: {} layers, {} parameters, {}, context {}", info.name, info.layers, info.parameters,
            info.file_type, info.context_length);
  base::log(LogLevel::info, "KV cache: {:.2f} GiB of {} for {} tokens in blocks of {}; {} bytes a token",
            double(s.sizing.bytes) / double(1 << 30), kv_type_name(kv_type(o)), s.sizing.tokens, o.block_size, s.bytes_per_token);
  for (size_t g = 0; g < s.sizing.groups.size(); ++g) {
    const auto& group = s.sizing.groups[g];
    base::log(LogLevel::debug, "KV group {}: {} blocks, {}", g, group.blocks,
              group.window == kv::kStateGroup ? "recurrent states" : group.window ? fmt::format("window {}", group.window) : "full attention");
  }
  if (s.states.slots) {
    base::log(LogLevel::info, "recurrent states: {} slots", s.states.slots);
    if (s.states.max_num_seqs < o.max_num_seqs)
      base::log(LogLevel::warning, "at most {} sequences run at once instead of {}: there is no memory for more recurrent states (--kv-cache-memory-bytes, "
                "--gpu-memory-utilization)", s.states.max_num_seqs, o.max_num_seqs);
  }
  if (s.sizing.max_model_len < wanted)
    base::log(LogLevel::warning,
              "the context is cut from {} to {} tokens: the KV cache has no room for more; give it memory "
              "(--kv-cache-memory-bytes, --gpu-memory-utilization), or a smaller KV type",
              wanted, s.sizing.max_model_len);
}

Result<std::unique_ptr<ops::Ops>> make_ops(const EngineOptions& o, const levers::Levers& levers, const engine::CoreShare& share) {
  return ops::make_cpu_ops(engine::ops_options(o, levers, share));
}

Result<sched::RouterOptions> router_options(const EngineOptions& o, const levers::DataParallel& dp) {
  ISO_TRY(const sched::RoutePolicy policy, sched::parse_route_policy(o.dp_load_balance));
  return sched::RouterOptions{.ranks = o.data_parallel_size,
                              .policy = policy,
                              .request_equiv = dp.request_equiv,
                              .session_affinity = dp.session_affinity,
                              .max_sessions = dp.max_sessions};
}

/// Tokens of a step that makes vectors: enough that every core is busy, few enough that what a step writes stays in the caches.
constexpr int64_t kPoolStep = 1024;

Result<std::unique_ptr<Engine>> open_encoder(const EngineOptions& o, const levers::Levers& levers, const weights::Checkpoint& files, int cores,
                                             const std::function<void(const LoadProgress&)>& progress) {
  if (o.data_parallel_size > 1)
    return fail(Code::unsupported, fmt::format("{} data-parallel engines are asked for", o.data_parallel_size), "--data-parallel-size", "an encoder runs as one engine; use --threads");
  ISO_TRY(const models::EncoderConfig c, models::parse_encoder_config(files, o.hf_overrides));
  ISO_TRY(PoolingInfo p, pooling_info(o, files, Pooling::mean));
  if (o.max_model_len > c.context_length)
    return fail(Code::invalid_argument, fmt::format("a context of {} tokens is asked for, the model has {} positions", o.max_model_len, c.context_length),
                "--max-model-len", "lower it");
  p.max_tokens = o.max_model_len ? o.max_model_len : p.max_tokens ? std::min(p.max_tokens, c.context_length) : c.context_length;
  p.dimensions = c.hidden, p.labels = c.labels, p.label_names = c.label_names, p.sigmoid = c.sigmoid, p.token_types = c.types;
  ISO_TRY(auto ops, make_ops(o, levers, engine::core_share(o, 0, cores)));
  base::log(LogLevel::info, "{}: {}", o.model, ops->describe());
  ModelInfo info = describe(o, {.arch = c.arch, .layers = c.layers, .hidden = c.hidden, .vocab = c.vocab, .context_length = c.context_length}, files);
  info.max_model_len = p.max_tokens;
  info.generates = false;
  info.fingerprint = fingerprint(o, levers, *ops);
  if (o.profile) ops = ops::make_metered(std::move(ops), o.profile);
  ISO_TRY(auto loaded, models::load_encoder(files, *ops, levers.loading(), c, progress));
  base::log(LogLevel::info, "{}: an encoder of {} layers, {} parameters, {}; texts of up to {} tokens to vectors of {}", info.name, info.layers, info.parameters,
            info.file_type, p.max_tokens, p.dimensions);
  return engine::make_encoder_engine(std::move(info), files.vocab(), std::move(p), kPoolStep, engine::make_encoder_pool(std::move(ops), std::move(loaded)));
}

/// A decoder's vectors are computed beside its answers, with threads of their own that are started when first needed.
engine::PoolLoop::Open decoder_pool(const EngineOptions& o, const levers::Levers& levers, int cores, std::shared_ptr<const models::Model> model) {
  engine::CoreShare share = engine::core_share(o, 0, cores);
  share.pin = false;
  return [options = engine::ops_options(o, levers, share), kv = kv_type(o), model]() -> Result<std::unique_ptr<engine::PoolModel>> {
    ISO_TRY(auto ops, ops::make_cpu_ops(options));
    return engine::make_decoder_pool(std::move(ops), model, kv, kPoolStep);
  };
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& given, const levers::Levers& levers,
                                             std::function<void(const LoadProgress&)> progress) {
  try {
    ISO_CHECK_OK(check_options(given));
    const int cores = base::machine().default_threads();
    ISO_TRY(const EngineOptions o, engine::resolve_ranks(given, levers, cores));
    ISO_TRY(const auto routing, router_options(o, levers.data_parallel()));
    ISO_TRY(const auto files, open_files(o, levers.loading()));
    if (models::is_encoder(*files)) return open_encoder(o, levers, *files, cores, progress);
    ISO_TRY(models::ModelConfig config, models::parse_config(*files, o.hf_overrides, o.max_model_len));
    if (!o.keep_mtp) config.drop_heads("as --no-mtp says");
    const std::string cut_by(models::apply_glm_settings(levers.sparse(), config));
    if (!cut_by.empty()) base::log(LogLevel::warning, "{}: contexts are cut to the {} tokens that the indexer would choose", cut_by, config.context_length);
    ISO_CHECK_OK(models::resolve_engram(config.engram, config.vocab, files->vocab(), o.token_texts, levers.engram(), !o.load_dummy.empty()));
    ISO_TRY(const int64_t length, wanted_length(o, config, cut_by));
    ISO_TRY(auto first_ops, make_ops(o, levers, engine::core_share(o, 0, cores)));
    base::log(LogLevel::info, "{}: {}", o.model, first_ops->describe());
    if (o.profile) first_ops = ops::make_metered(std::move(first_ops), o.profile);  // of several engines the first one is timed
    ISO_TRY(auto loaded, models::load_model(*files, *first_ops, levers.loading(), config, progress));
    const std::shared_ptr<const models::Model> model = std::move(loaded);
    ISO_TRY(const size_t budget, engine::kv_budget(o));

    const levers::PrefixCache& cache = levers.prefix_cache();
    std::vector<engine::Parts> ranks;
    for (int rank = 0; rank < o.data_parallel_size; ++rank) {
      std::unique_ptr<ops::Ops> ops = std::move(first_ops);
      if (!ops) {
        ISO_TRY(ops, make_ops(o, levers, engine::core_share(o, rank, cores)));
      }
      ISO_TRY(auto storage, make_storage(o, *model, *ops, length, budget / size_t(o.data_parallel_size), cache.checkpoint_interval.value_or(1) != 0));
      engine::Parts parts;
      parts.options = o;
      parts.options.first_rank = o.first_rank + rank;
      parts.info = describe(o, config, *files);
      parts.info.max_model_len = storage.sizing.max_model_len;
      parts.info.kv_bytes_per_token = storage.bytes_per_token;
      parts.info.fingerprint = fingerprint(o, levers, *ops);
      parts.info.cut_by = cut_by;
      parts.groups = storage.sizing.groups;
      parts.options.max_num_seqs = storage.states.max_num_seqs;
      parts.housekeeping = levers.housekeeping();
      ISO_TRY(parts.events, engine::make_publisher(levers.kv_events(), o, parts.options.first_rank));
      parts.kv_options = {.fast_walk = cache.fast_walk, .walk_memo = cache.walk_memo, .events = parts.events != nullptr};
      parts.kv_options.replay_tokens = replay_tokens(*model, o, cache, rank == 0);
      parts.frontend_hash = cache.frontend_hash;
      if (storage.states.slots) parts.checkpoints = checkpoints(o, cache);
      parts.delayer = levers.prefill_delayer();
      parts.lockstep = engine::lockstep(levers);
      parts.balancing = {.token_weight = levers.data_parallel().balance_token_weight,
                         .slack = levers.data_parallel().balance_slack,
                         .min_tokens = levers.data_parallel().balance_min_tokens};
      if (rank == 0) {
        parts.vocab = files->vocab();
        announce(storage, o, parts.info, length);
      }
      if (o.data_parallel_size > 1) base::log(LogLevel::info, "rank {}: {}", parts.options.first_rank, ops->describe());
      auto runner = std::make_unique<engine::ModelRunner>(std::move(ops), model, std::move(storage.kv), rank == 0 ? o.profile : nullptr);
      if (rank == 0) runner->tell_of_tables();
      parts.runner = std::move(runner);
      ranks.push_back(std::move(parts));
    }
    if (const auto meeting = engine::meeting_of(given, levers)) {
      ISO_TRY(ranks[0].own_group, engine::meet(*meeting));
      ranks[0].group = ranks[0].own_group.get();
      ranks[0].seat = meeting->rank;
    }
    auto pooling = pooling_info(o, *files, Pooling::last);
    const int64_t served = ranks[0].info.max_model_len;
    auto engine = ranks.size() == 1 ? engine::make_engine(std::move(ranks[0])) : engine::make_data_parallel_engine(std::move(ranks), routing);
    if (!pooling) {
      base::log(LogLevel::warning, "no embeddings: {}", pooling.error().message());
      return engine;
    }
    pooling->dimensions = config.hidden;
    pooling->max_tokens = served;
    return engine::make_pooled_engine(std::move(engine), *std::move(pooling), kPoolStep, decoder_pool(o, levers, cores, model));
  } catch (const std::exception& e) {
    return fail(Code::internal, fmt::format("opening the model failed: {}", e.what()), given.model,
                "check that the machine has enough memory; else report this as a defect");
  }
}

}  // namespace isotope
