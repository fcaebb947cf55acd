#include "engine/metrics.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "engine/clock.h"

namespace isotope::engine {

namespace {

using telemetry::Kind;
using telemetry::Row;

constexpr std::string_view kReasons[] = {"stop", "length", "abort", "error", "repetition"};
constexpr std::string_view kSources[] = {"local_compute", "local_cache_hit", "external_kv_transfer"};
constexpr std::string_view kRejections[] = {"queue_full", "invalid", "shutting_down", "duplicate_id", "deadline"};
constexpr std::string_view kOutcomes[] = {"kept", "dropped"};
constexpr std::string_view kWaits[] = {"started", "satisfied", "ended", "expired"};
constexpr std::string_view kWalkModes[] = {"fast", "slow"};
constexpr std::string_view kMemoReasons[] = {"changed", "published", "overflow", "cleared", "request"};
constexpr std::string_view kHashFaults[] = {"none", "block_size", "seed", "length", "fingerprint", "link"};
static_assert(std::size(kMemoReasons) == kv::CacheCounters::kInvalids && std::size(kHashFaults) == base::kChainFaults);
constexpr std::string_view kExitNames[sched::kExits] = {"fill",     "stall", "ttft",    "kv",                   "partial", "nodecode",
                                                        "queue_ms", "cost",  "vacuous", "hold_decode_interval", "hold"};
constexpr std::string_view kTablePaths[] = {"in_place", "staged"};
constexpr std::string_view kVocabSources[] = {"kept", "built"};
constexpr double kTtft[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                            1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
constexpr double kPerToken[] = {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
constexpr double kLatency[] = {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
constexpr double kTokens[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
constexpr double kStepTokens[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
constexpr double kSmall[] = {1, 2, 5, 10, 20};
constexpr double kImbalances[] = {1, 1.05, 1.1, 1.25, 1.5, 2, 3, 4, 8, 16};

// One row for each metric; the enumerators name the rows in order.
// clang-format off
enum RowId : size_t {
  kRunning, kWaiting, kUsage, kPrefixQueries, kPrefixHits, kPreemptions, kPromptTokens, kPromptBySource, kPromptCached, kGenerationTokens,
  kSuccess, kRejected, kTtftSeconds, kItl, kTpot, kE2e, kQueue, kInference, kPrefill, kDecode, kRequestPrompt, kRequestGeneration, kIteration,
  kMaxGeneration, kRequestPreemptions, kPrefillComputed,
  kAtomSnapshot, kAtomRefresh, kAtomRefreshErrors, kAtomRunning, kAtomWaiting, kAtomPartial, kAtomUsed, kAtomFree, kAtomTotal, kAtomIndexed,
  kAtomUsage, kAtomHitRatio, kAtomFinished, kAtomPrompt, kAtomGeneration, kAtomPreemptions, kAtomCacheRequests, kAtomCached, kAtomFull,
  kIntegrity, kWalkLookups, kWalkCompares, kWalks, kWalkFallback, kMemoHits, kMemoInvalid, kHashAdopted, kHashRejected, kHashedBlocks,
  kEventsSent, kEventsDropped, kEventsBad, kEventsReplayed, kEventsAborted, kEventsRequests, kDelayer,
  kPrefillSteps, kImbalance, kGaveBack, kStates, kStatesCut, kStatesDemanded, kStatesMidstep, kMostStates,
  kReplays, kReplayedTokens, kWaited, kWaitedTokens, kTableRows, kTableBytes, kTableSeconds, kTableVocab, kRowCount
};
// clang-format on

constexpr Row plain(std::string_view name, Kind kind, std::string_view help) {
  return {name, kind, help, {}, {}, {}, false};
}
constexpr Row hist(std::string_view name, std::string_view help, std::span<const double> buckets) {
  return {name, Kind::histogram, help, {}, {}, buckets};
}

constexpr std::array<Row, kRowCount> kRows = {{
    {"vllm:num_requests_running", Kind::gauge, "Requests in execution."},
    {"vllm:num_requests_waiting", Kind::gauge, "Requests waiting to be admitted."},
    {"vllm:kv_cache_usage_perc", Kind::gauge, "Share of KV blocks in use, 0 to 1."},
    {"vllm:prefix_cache_queries", Kind::counter, "Tokens looked up in the prefix cache."},
    {"vllm:prefix_cache_hits", Kind::counter, "Tokens found in the prefix cache."},
    {"vllm:num_preemptions", Kind::counter, "Preemptions."},
    {"vllm:prompt_tokens", Kind::counter, "Prompt tokens of requests whose prompt is complete."},
    {"vllm:prompt_tokens_by_source", Kind::counter, "Prompt tokens by where their KV came from; adds up to prompt_tokens.",
     "source", kSources},
    {"vllm:prompt_tokens_cached", Kind::counter, "Prompt tokens whose KV came from a cache."},
    {"vllm:generation_tokens", Kind::counter, "Generated tokens."},
    {"vllm:request_success", Kind::counter, "Finished requests.", "finished_reason", kReasons},
    {"vllm:admission_rejections", Kind::counter, "Requests that were refused.", "reason", kRejections},
    hist("vllm:time_to_first_token_seconds", "From submission to the first token.", kTtft),
    hist("vllm:inter_token_latency_seconds", "Between two tokens of a request.", kPerToken),
    hist("vllm:request_time_per_output_token_seconds", "Mean time per output token after the first, per request.", kPerToken),
    hist("vllm:e2e_request_latency_seconds", "From submission to the end.", kLatency),
    hist("vllm:request_queue_time_seconds", "From submission to admission.", kLatency),
    hist("vllm:request_inference_time_seconds", "From admission to the end.", kLatency),
    hist("vllm:request_prefill_time_seconds", "From admission to the first token.", kLatency),
    hist("vllm:request_decode_time_seconds", "From the first token to the end.", kLatency),
    hist("vllm:request_prompt_tokens", "Prompt tokens of a request.", kTokens),
    hist("vllm:request_generation_tokens", "Generated tokens of a request.", kTokens),
    hist("vllm:iteration_tokens_total", "Tokens computed in a step.", kStepTokens),
    hist("vllm:request_max_num_generation_tokens", "Tokens a request could generate.", kTokens),
    hist("vllm:request_num_preemptions", "Preemptions of a request.", kSmall),
    hist("vllm:request_prefill_kv_computed_tokens", "Prompt tokens of a request that were computed.", kTokens),
    plain("atom:metrics_snapshot_available", Kind::gauge, "1 once the engine has published numbers."),
    plain("atom:metrics_last_refresh_timestamp_seconds", Kind::gauge, "Unix time of the last step."),
    plain("atom:metrics_refresh_errors", Kind::counter, "Failures to refresh the numbers."),
    plain("atom:requests_running", Kind::gauge, "Requests in execution."),
    plain("atom:requests_waiting", Kind::gauge, "Requests waiting to be admitted."),
    plain("atom:requests_partial_prefill", Kind::gauge, "Requests in the middle of their prompt."),
    plain("atom:kv_cache_blocks_used", Kind::gauge, "KV blocks in use (first group)."),
    plain("atom:kv_cache_blocks_free", Kind::gauge, "KV blocks free or evictable (first group)."),
    plain("atom:kv_cache_blocks_total", Kind::gauge, "KV blocks (first group)."),
    plain("atom:kv_cache_blocks_indexed", Kind::gauge, "KV blocks that hold a prefix and can be evicted (first group)."),
    plain("atom:kv_cache_usage_ratio", Kind::gauge, "Share of KV blocks in use, 0 to 1."),
    plain("atom:prefix_cache_hit_ratio", Kind::gauge, "Hit tokens by looked-up tokens, since the start."),
    plain("atom:requests_finished", Kind::counter, "Finished requests."),
    plain("atom:prompt_tokens", Kind::counter, "Prompt tokens."),
    plain("atom:generation_tokens", Kind::counter, "Generated tokens."),
    plain("atom:preemptions", Kind::counter, "Preemptions."),
    plain("atom:prefix_cache_requests", Kind::counter, "Requests that were looked up in the prefix cache."),
    plain("atom:prefix_cache_cached_tokens", Kind::counter, "Tokens found in the prefix cache."),
    plain("atom:prefix_cache_full_tokens", Kind::counter, "Tokens looked up in the prefix cache."),
    plain("isotope:kv_integrity_errors", Kind::counter, "Inconsistencies found in the KV bookkeeping; always 0."),
    {"isotope:prefix_walk_lookups", Kind::counter, "Blocks looked up in the prefix index.", "mode", kWalkModes},
    plain("isotope:prefix_walk_token_compares", Kind::counter, "Blocks whose stored tokens were compared with a prompt's."),
    plain("isotope:prefix_walks", Kind::counter, "Chains walked."),
    plain("isotope:prefix_walk_fallback", Kind::counter, "Claims that found a block changed and walked block by block."),
    plain("isotope:prefix_walk_memo_hits", Kind::counter, "Lookups answered by the remembered walk."),
    {"isotope:prefix_walk_memo_invalidated", Kind::counter, "Remembered walks that had to be repeated.", "reason", kMemoReasons},
    plain("isotope:prefix_hash_adopted", Kind::counter, "Prompts whose hashes came with the request."),
    {"isotope:prefix_hash_rejected", Kind::counter, "Prompts whose shipped hashes were refused.", "reason", kHashFaults},
    plain("isotope:prefix_hash_engine_blocks", Kind::counter, "Prompt blocks hashed by the engine's thread."),
    plain("isotope:kv_events_sent", Kind::counter, "Batches of KV events sent."),
    plain("isotope:kv_events_dropped", Kind::counter, "Batches of KV events dropped because the sender lagged."),
    plain("isotope:kv_events_encode_errors", Kind::counter, "Batches of KV events that could not be written."),
    plain("isotope:kv_events_replayed", Kind::counter, "Batches of KV events sent again on request."),
    plain("isotope:kv_events_replay_aborted", Kind::counter, "Replays whose client vanished, stalled or asked again."),
    plain("isotope:kv_events_bad_requests", Kind::counter, "Messages to the replay socket that are no request."),
    {"isotope:prefill_delayer_decisions", Kind::counter, "Verdicts of the prefill delayer by outcome; without a delayer all 0.",
     "outcome", kExitNames},
    plain("isotope:prefill_steps", Kind::counter, "Steps that computed prompt tokens."),
    hist("isotope:dp_prefill_cost_imbalance", "Of steps of ranks that step together: largest prefill cost above the mean, before it was evened out.", kImbalances),
    plain("isotope:dp_prefill_gave_back_tokens", Kind::counter, "Prompt tokens taken out of steps to even out the ranks."),
    {"isotope:state_checkpoints", Kind::counter, "States of recurrent layers that were stored, or dropped for want of a slot.", "outcome", kOutcomes},
    plain("isotope:state_checkpoint_cuts", Kind::counter, "Chunks of prompts cut so that a step ends where a state is stored."),
    plain("isotope:state_checkpoint_demands", Kind::counter, "Admissions whose prefix hit ended early for want of a stored state."),
    plain("isotope:midstep_checkpoints", Kind::counter, "States of recurrent layers that were stored in the middle of a step (ATOM_GDN_STATE_MIDSTEP)."),
    plain("isotope:state_blocks_per_request", Kind::gauge, "Most blocks of states that one request held in the last step (ATOM_STATE_CHECKPOINT_CHECK_BLOCKS)."),
    plain("isotope:state_replay_requests", Kind::counter, "Prefix hits whose last windows were computed once more (ATOM_DSV4_STATE_REPLAY)."),
    plain("isotope:state_replay_tokens", Kind::counter, "Tokens that were computed once more for that."),
    {"isotope:checkpoint_waits", Kind::counter, "Requests that waited for a state which another one was about to store.", "outcome", kWaits},
    plain("isotope:checkpoint_wait_saved_tokens", Kind::counter, "Prompt tokens that requests found in the cache because they had waited."),
    {"isotope:engram_rows", Kind::counter, "Rows read of n-gram tables, by how: within layers, or ahead of them by a thread.", "path", kTablePaths},
    plain("isotope:engram_bytes", Kind::counter, "Bytes of those rows in the file's format."),
    plain("isotope:engram_gather_seconds", Kind::counter, "Time spent reading them."),
    {"isotope:engram_vocab", Kind::counter, "Compressed vocabularies: found in ATOM_ENGRAM_CACHE_DIR, or made from the tokenizer.", "source", kVocabSources},
}};

enum DeviceRow : size_t { kForwardTime, kPromptForwardTime };
constexpr double kForwardSeconds[] = {.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60};
constexpr Row kDeviceRows[] = {hist("atom:gpu_forward_seconds", "Time of one forward pass.", kForwardSeconds),
                               hist("atom:prefill_request_gpu_forward_seconds", "Time of the forward passes that computed a request's prompt.", kForwardSeconds)};

size_t reason_index(FinishReason r) {
  switch (r) {
    case FinishReason::stop:
      return 0;
    case FinishReason::length:
      return 1;
    case FinishReason::error:
      return 3;
    default:
      return 2;
  }
}

}  // namespace

Metrics::Metrics(const ModelInfo& info, const EngineOptions& options, int64_t blocks, const levers::Housekeeping& settings)
    : registry_(kRows, {{"model_name", info.name}, {"engine", std::to_string(options.first_rank)}}),
      cache_config_({{"engine", std::to_string(options.first_rank)},
                     {"block_size", std::to_string(options.block_size)},
                     {"num_gpu_blocks", std::to_string(blocks)},
                     {"num_cpu_blocks", std::to_string(blocks)},
                     {"enable_prefix_caching", options.prefix_caching ? "True" : "False"},
                     {"gpu_memory_utilization", telemetry::number_text(options.memory_fraction)}}),
      interval_ns_(int64_t(std::min(settings.metrics_interval_s, 1e6) * 1e9)) {
  if (settings.device_timer)
    device_ = std::make_unique<telemetry::Registry>(
        kDeviceRows,
        telemetry::Labels{{"dp_rank", std::to_string(options.first_rank)}, {"pp_rank", "0"}, {"tp_rank", "0"}, {"engine_role", "standard"}});
}

void Metrics::admitted(const Sequence& s, int64_t hit_tokens, bool queried) {
  if (!queried) return;
  registry_.add(kPrefixQueries, double(s.known()));
  registry_.add(kAtomFull, double(s.known()));
  registry_.add(kPrefixHits, double(hit_tokens));
  registry_.add(kAtomCached, double(hit_tokens));
  registry_.add(kAtomCacheRequests);
}

void Metrics::prompt_done(const Sequence& s) {
  const double prompt = double(s.prompt_tokens), cached = double(s.stats.cached_tokens);
  registry_.add(kPromptTokens, prompt);
  registry_.add(kAtomPrompt, prompt);
  registry_.add(kPromptBySource, prompt - cached, 0);
  registry_.add(kPromptBySource, cached, 1);
  registry_.add(kPromptCached, cached);
}

void Metrics::token(const Sequence& s, int64_t now, int64_t previous) {
  registry_.add(kGenerationTokens);
  registry_.add(kAtomGeneration);
  if (previous)
    registry_.observe(kItl, seconds_between(previous, now));
  else
    registry_.observe(kTtftSeconds, seconds_between(s.submitted_ns, now));
}

void Metrics::finished(const Sequence& s, FinishReason reason, int64_t now) {
  const RequestStats& st = s.stats;
  registry_.add(kSuccess, 1, reason_index(reason));
  registry_.add(kAtomFinished);
  registry_.observe(kE2e, seconds_between(s.submitted_ns, now));
  registry_.observe(kQueue, st.queue_s);
  if (s.admitted_ns) registry_.observe(kInference, seconds_between(s.admitted_ns, now));
  if (s.first_token_ns) {
    registry_.observe(kPrefill, st.prefill_s);
    registry_.observe(kDecode, st.decode_s);
  }
  if (st.output_tokens > 1) registry_.observe(kTpot, st.decode_s / double(st.output_tokens - 1));
  registry_.observe(kRequestPrompt, double(st.prompt_tokens));
  registry_.observe(kRequestGeneration, double(st.output_tokens));
  registry_.observe(kMaxGeneration, double(s.max_output));
  registry_.observe(kRequestPreemptions, double(st.preemptions));
  registry_.observe(kPrefillComputed, double(st.prompt_tokens - st.cached_tokens));
}

void Metrics::rejected(std::string_view reason) {
  const auto* it = std::find(std::begin(kRejections), std::end(kRejections), reason);
  if (it != std::end(kRejections)) registry_.add(kRejected, 1, size_t(it - std::begin(kRejections)));
}

void Metrics::delayer(sched::Exit e) {
  registry_.add(kDelayer, 1, size_t(e));
}

void Metrics::imbalance(double largest_to_mean) {
  if (largest_to_mean > 0) registry_.observe(kImbalance, largest_to_mean);
}

void Metrics::gave_back(int64_t tokens) {
  registry_.add(kGaveBack, double(tokens));
}

void Metrics::step(const StepCounts& c, const EngineStats& s, int64_t partial_prefills) {
  if (c.tokens) registry_.observe(kIteration, double(c.tokens));
  registry_.add(kPrefillSteps, c.prefill ? 1 : 0);
  registry_.add(kStates, double(c.states_kept), 0);
  registry_.add(kStates, double(c.states_dropped), 1);
  registry_.add(kStatesCut, double(c.states_cut));
  registry_.add(kStatesDemanded, double(c.states_demanded));
  registry_.add(kStatesMidstep, double(c.states_midstep));
  registry_.set(kMostStates, double(c.most_states));
  registry_.add(kReplays, double(c.replays));
  registry_.add(kReplayedTokens, double(c.replayed_tokens));
  registry_.add(kPreemptions, double(c.preempted));
  registry_.add(kAtomPreemptions, double(c.preempted));
  const double total = double(s.blocks_total), available = double(s.blocks_free + s.blocks_evictable);
  const double usage = total > 0 ? (total - available) / total : 0;
  const std::pair<RowId, double> gauges[] = {
      {kRunning, double(s.running)},
      {kWaiting, double(s.waiting)},
      {kUsage, usage}};
  for (const auto& [row, value] : gauges) registry_.set(row, value);
  // The rest is a snapshot, taken at its interval and when the engine falls idle.
  const int64_t now = now_ns();
  if (now < next_refresh_ns_ && s.running + s.waiting > 0) return;
  next_refresh_ns_ = now + interval_ns_;
  const std::pair<RowId, double> snapshot[] = {
      {kAtomRunning, double(s.running)},
      {kAtomWaiting, double(s.waiting)},
      {kAtomPartial, double(partial_prefills)},
      {kAtomUsed, total - available},
      {kAtomFree, available},
      {kAtomTotal, total},
      {kAtomIndexed, double(s.blocks_evictable)},
      {kAtomUsage, usage},
      {kAtomSnapshot, 1},
      {kAtomHitRatio, s.prefix_queries ? double(s.prefix_hits) / double(s.prefix_queries) : 0},
      {kAtomRefresh, std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()}};
  for (const auto& [row, value] : snapshot) registry_.set(row, value);
}

void Metrics::forward_time(double seconds) {
  if (device_) device_->observe(kForwardTime, seconds);
}
void Metrics::prompt_forward_time(double seconds) {
  if (device_) device_->observe(kPromptForwardTime, seconds);
}

void Metrics::raise(size_t row, int64_t total, size_t label) {
  registry_.add(row, double(total) - registry_.value(row, label), label);
}

void Metrics::kv_events(const kv::PublisherStats& s) {
  raise(kEventsSent, s.sent);
  raise(kEventsDropped, s.dropped);
  raise(kEventsBad, s.encode_errors);
  raise(kEventsReplayed, s.replayed);
  raise(kEventsAborted, s.replay_aborted);
  raise(kEventsRequests, s.bad_requests);
}

void Metrics::prefix_cache(const kv::CacheCounters& c) {
  raise(kWalkLookups, c.fast_lookups, 0);
  raise(kWalkLookups, c.slow_lookups, 1);
  raise(kWalkCompares, c.token_compares);
  raise(kWalks, c.walks);
  raise(kWalkFallback, c.fallbacks);
  raise(kMemoHits, c.memo_hits);
  for (size_t i = 0; i < std::size(kMemoReasons); ++i) raise(kMemoInvalid, c.memo_invalid[i], i);
  raise(kHashAdopted, c.chains_adopted);
  for (size_t i = 1; i < std::size(kHashFaults); ++i) raise(kHashRejected, c.chains_rejected[i], i);
  raise(kHashedBlocks, c.blocks_hashed);
}

void Metrics::waits(const sched::WaitCounts& c) {
  const int64_t by_outcome[std::size(kWaits)] = {c.started, c.satisfied, c.ended, c.expired};
  for (size_t i = 0; i < std::size(kWaits); ++i) raise(kWaited, by_outcome[i], i);
  raise(kWaitedTokens, c.tokens);
}

void Metrics::tables(const models::EngramStats& s) {
  raise(kTableRows, s.rows, s.path == kTablePaths[1]);
  raise(kTableBytes, s.bytes);
  registry_.add(kTableSeconds, std::max(0.0, s.seconds - registry_.value(kTableSeconds)));
  raise(kTableVocab, 1, !s.map_kept);
}

void Metrics::integrity_error() {
  registry_.add(kIntegrity);
}
int64_t Metrics::integrity_errors() const {
  return int64_t(registry_.value(kIntegrity));
}

std::string Metrics::prometheus() const {
  const Metrics* const kSelf[] = {this};
  return engine::prometheus(kSelf);
}

std::string prometheus(std::span<const Metrics* const> engines) {
  std::vector<const telemetry::Registry*> registries;
  std::vector<telemetry::Labels> caches;
  for (const Metrics* m : engines) {
    registries.push_back(&m->registry_);
    caches.push_back(m->cache_config_);
  }
  telemetry::Registry total(kRows, {});
  for (const telemetry::Registry* r : registries) total.absorb(*r);
  total.set(kAtomSnapshot, total.value(kAtomSnapshot) > 0);
  total.set(kAtomUsage, total.value(kAtomTotal) > 0 ? total.value(kAtomUsed) / total.value(kAtomTotal) : 0);
  total.set(kAtomHitRatio, total.value(kAtomFull) > 0 ? total.value(kAtomCached) / total.value(kAtomFull) : 0);
  total.set(kAtomRefresh, 0);
  for (const telemetry::Registry* r : registries) total.set(kAtomRefresh, std::max(total.value(kAtomRefresh), r->value(kAtomRefresh)));
  std::vector<const telemetry::Registry*> devices;
  for (const Metrics* m : engines)
    if (m->device_) devices.push_back(m->device_.get());
  return telemetry::prometheus(registries, &total) + telemetry::prometheus(devices) + telemetry::info_metric("vllm:cache_config_info", "Configuration of the KV cache.", caches);
}

}  // namespace isotope::engine
