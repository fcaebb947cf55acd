#include "levers/bindings.h"

#include <algorithm>
#include <charconv>

namespace isotope::levers {

namespace {

// Values are canonical here (parse.cc), so conversion cannot fail.
void store(bool& field, std::string_view v) { field = v == "true"; }
void store(std::string& field, std::string_view v) { field = v; }
void store(int& field, std::string_view v) { std::from_chars(v.data(), v.data() + v.size(), field); }
void store(int64_t& field, std::string_view v) { std::from_chars(v.data(), v.data() + v.size(), field); }
void store(double& field, std::string_view v) { std::from_chars(v.data(), v.data() + v.size(), field); }
template <class T>
void store(std::optional<T>& field, std::string_view v) {
  if (!v.empty()) store(field.emplace(), v);
}
void store(std::vector<int64_t>& field, std::string_view v) {
  field.clear();
  while (!v.empty()) {
    store(field.emplace_back(), v);
    v.remove_prefix(std::min(v.find(','), v.size() - 1) + 1);
  }
}

template <auto Part, auto Field>
void set(AllGroups& g, std::string_view v) {
  store((g.*Part).*Field, v);
}

/// Whoever takes the group asks for it with Levers::find: src/engine/ranks.cc.
void by_name(AllGroups&, std::string_view) {}

constexpr auto L = &AllGroups::loading;
constexpr auto C = &AllGroups::cpu;
constexpr auto F = &AllGroups::fusion;
constexpr auto P = &AllGroups::program;
constexpr auto K = &AllGroups::prefix_cache;
constexpr auto E = &AllGroups::kv_events;
constexpr auto D = &AllGroups::delayer;
constexpr auto M = &AllGroups::capacity;
constexpr auto R = &AllGroups::data_parallel;
constexpr auto H = &AllGroups::housekeeping;
constexpr auto T = &AllGroups::text;
constexpr auto S = &AllGroups::sparse;
constexpr auto N = &AllGroups::engram;

constexpr Binding kBindings[] = {
    {"ATOM_DISABLE_MMAP", Group::loading, set<L, &Loading::disable_mmap>},
    {"ATOM_LOADER_NUM_THREADS", Group::loading, set<L, &Loading::num_threads>},
    {"ATOM_LOADER_STRICT_COVERAGE", Group::loading, set<L, &Loading::strict_coverage>},
    {"ATOM_LOADER_PREFETCH", Group::loading, set<L, &Loading::prefetch>},
    {"ATOM_LOADER_PREFETCH_THREADS", Group::loading, set<L, &Loading::prefetch_threads>},
    {"ATOM_LOADER_PREFETCH_BLOCK_MB", Group::loading, set<L, &Loading::prefetch_block_mb>},
    {"ATOM_LOADER_FADVISE", Group::loading, set<L, &Loading::fadvise>},
    {"ATOM_ONLINE_QUANT_STREAMING", Group::loading, set<L, &Loading::online_quant_streaming>},
    {"ATOM_ONLINE_QUANT_STREAMING_HOST_STAGING", Group::loading, set<L, &Loading::online_quant_host_staging>},
    {"ATOM_ONLINE_QUANT_STREAMING_THREADS", Group::loading, set<L, &Loading::online_quant_threads>},
    {"ISOTOPE_EXPERT_FOLDER", Group::loading, set<L, &Loading::expert_folder>},
    {"ISOTOPE_CPU_ISA", Group::cpu, set<C, &Cpu::isa>},
    {"ISOTOPE_CPU_THREADS", Group::cpu, set<C, &Cpu::threads>},
    {"ISOTOPE_CPU_LINEAR_ALONE", Group::cpu, set<C, &Cpu::linear_alone>},
    {"ISOTOPE_CPU_PASS_KIB", Group::cpu, set<C, &Cpu::pass_kib>},
    {"ISOTOPE_CPU_ATTENTION_ALONE", Group::cpu, set<C, &Cpu::attention_alone>},
    {"ATOM_LLAMA_ENABLE_AITER_TRITON_FUSED_RMSNORM_QUANT", Group::fusion, set<F, &Fusion::norm_quantize>},
    {"ATOM_LLAMA_ENABLE_AITER_TRITON_FUSED_SILU_MUL_QUANT", Group::fusion, set<F, &Fusion::act_quantize>},
    {"ATOM_ENABLE_QK_NORM_ROPE_CACHE_QUANT_FUSION", Group::fusion, set<F, &Fusion::qk_norm_rope_cache>},
    {"ATOM_QK_NORM_ROPE_CACHE_FUSION_MAX_TOKENS", Group::fusion, set<F, &Fusion::qk_norm_max_tokens>},
    {"ATOM_USE_MODEL_SENSITIVE_RMSNORM", Group::fusion, set<F, &Fusion::model_sensitive_norm>},
    {"ISOTOPE_API_KEY", Group::program, set<P, &Program::api_key>},
    {"OPENAI_API_KEY", Group::program, set<P, &Program::client_api_key>},
    {"SAVE_TO_PYTORCH_BENCHMARK_FORMAT", Group::program, by_name},
    {"ATOM_DP_SIZE", Group::data_parallel, set<R, &DataParallel::size>},
    {"ATOM_DP_RANK", Group::data_parallel, set<R, &DataParallel::rank>},
    {"ATOM_DP_RANK_LOCAL", Group::data_parallel, set<R, &DataParallel::rank_local>},
    {"ATOM_DP_LB_REQ_EQUIV", Group::data_parallel, set<R, &DataParallel::request_equiv>},
    {"ATOM_DP_SESSION_AFFINITY", Group::data_parallel, set<R, &DataParallel::session_affinity>},
    {"ISOTOPE_DP_MAX_SESSIONS", Group::data_parallel, set<R, &DataParallel::max_sessions>},
    {"ISOTOPE_DP_LOCKSTEP", Group::data_parallel, by_name},
    {"ATOM_DP_MASTER_IP", Group::data_parallel, by_name},
    {"ATOM_DP_MASTER_PORT", Group::data_parallel, by_name},
    {"ATOM_DP_PREFILL_BALANCE_TOKEN_WEIGHT", Group::data_parallel, set<R, &DataParallel::balance_token_weight>},
    {"ATOM_DP_PREFILL_BALANCE_SLACK", Group::data_parallel, set<R, &DataParallel::balance_slack>},
    {"ATOM_DP_PREFILL_BALANCE_MIN_TOKENS", Group::data_parallel, set<R, &DataParallel::balance_min_tokens>},
    {"ATOM_SHUTDOWN_TIMEOUT_S", Group::housekeeping, set<H, &Housekeeping::shutdown_timeout_s>},
    {"ATOM_METRICS_UPDATE_INTERVAL_S", Group::housekeeping, set<H, &Housekeeping::metrics_interval_s>},
    {"ATOM_ENABLE_METRICS_DEVICE_TIMER", Group::housekeeping, set<H, &Housekeeping::device_timer>},
    {"ATOM_GC_FREEZE", Group::housekeeping, set<H, &Housekeeping::gc_freeze>},
    {"ATOM_GC_DEBUG", Group::housekeeping, set<H, &Housekeeping::gc_debug>},
    {"ATOM_GC_THRESHOLD", Group::housekeeping, set<H, &Housekeeping::gc_threshold>},
    {"ISOTOPE_LOG_LEVEL", Group::program, set<P, &Program::log_level>},
    {"ATOM_FRONTEND_PREFIX_HASH", Group::prefix_cache, set<K, &PrefixCache::frontend_hash>},
    {"ATOM_PREFIX_FAST_WALK", Group::prefix_cache, set<K, &PrefixCache::fast_walk>},
    {"ATOM_PREFIX_WALK_MEMO", Group::prefix_cache, set<K, &PrefixCache::walk_memo>},
    {"ATOM_STATE_CHECKPOINT_DEMAND", Group::prefix_cache, set<K, &PrefixCache::checkpoint_demand>},
    {"ATOM_STATE_CHECKPOINT_END_MARGIN", Group::prefix_cache, set<K, &PrefixCache::checkpoint_end_margin>},
    {"ATOM_STATE_CHECKPOINT_INTERVAL_TOKENS", Group::prefix_cache, set<K, &PrefixCache::checkpoint_interval>},
    {"ATOM_GDN_STATE_MIDSTEP", Group::prefix_cache, set<K, &PrefixCache::checkpoint_midstep>},
    {"ATOM_STATE_CHECKPOINT_CHECK_BLOCKS", Group::prefix_cache, set<K, &PrefixCache::checkpoint_check>},
    {"ATOM_DSV4_STATE_REPLAY", Group::prefix_cache, set<K, &PrefixCache::state_replay>},
    {"ATOM_KV_EVENTS_ENABLE", Group::kv_events, set<E, &KvEvents::enable>},
    {"ATOM_KV_EVENTS_PUBLISHER", Group::kv_events, set<E, &KvEvents::publisher>},
    {"ATOM_KV_EVENTS_ENDPOINT", Group::kv_events, set<E, &KvEvents::endpoint>},
    {"ATOM_KV_EVENTS_TOPIC", Group::kv_events, set<E, &KvEvents::topic>},
    {"ATOM_KV_EVENTS_HWM", Group::kv_events, set<E, &KvEvents::hwm>},
    {"ATOM_KV_EVENTS_BUFFER_STEPS", Group::kv_events, set<E, &KvEvents::buffer_steps>},
    {"ATOM_KV_EVENTS_REPLAY_ENDPOINT", Group::kv_events, set<E, &KvEvents::replay_endpoint>},
    {"ATOM_KV_EVENTS_REPLAY_BUFFER_STEPS", Group::kv_events, set<E, &KvEvents::replay_buffer_steps>},
    {"ISOTOPE_KV_EVENTS_ENCODING", Group::kv_events, set<E, &KvEvents::encoding>},
    {"ATOM_ENABLE_PREFILL_DELAYER", Group::delayer, set<D, &PrefillDelayer::enabled>},
    {"ATOM_PREFILL_DELAYER_TARGET_FILL", Group::delayer, set<D, &PrefillDelayer::target_fill>},
    {"ATOM_PREFILL_DELAYER_TTFT_MAX_TICKS", Group::delayer, set<D, &PrefillDelayer::ttft_max_ticks>},
    {"ATOM_PREFILL_DELAYER_PARTIAL_MAX_TICKS", Group::delayer, set<D, &PrefillDelayer::partial_max_ticks>},
    {"ATOM_PREFILL_DELAYER_STALL_TICKS", Group::delayer, set<D, &PrefillDelayer::stall_ticks>},
    {"ATOM_PREFILL_DELAYER_COST_GATE", Group::delayer, set<D, &PrefillDelayer::cost_gate>},
    {"ATOM_PREFILL_DELAYER_KV_HIGH_WATERMARK", Group::delayer, set<D, &PrefillDelayer::kv_high>},
    {"ATOM_PREFILL_DELAYER_TOKEN_USAGE_LOW_WATERMARK", Group::delayer, set<D, &PrefillDelayer::kv_low>},
    {"ATOM_PREFILL_DELAYER_MAX_QUEUE_MS", Group::delayer, set<D, &PrefillDelayer::max_queue_ms>},
    {"ATOM_PREFILL_DECODE_INTERVAL", Group::delayer, set<D, &PrefillDelayer::decode_interval>},
    {"ATOM_PREFILL_DELAYER_DEBUG", Group::delayer, set<D, &PrefillDelayer::debug>},
    {"ATOM_PREFILL_DELAYER_LOG_EVERY", Group::delayer, set<D, &PrefillDelayer::log_every>},
    {"ATOM_TOKENIZE_CACHE_MB", Group::text, set<T, &Text::tokenize_cache_mb>},
    {"ATOM_DETOKENIZER_DELTA_REUSE", Group::text, set<T, &Text::delta_reuse>},
    {"ATOM_DETOKENIZER_AUDIT_EVERY", Group::text, set<T, &Text::audit_every>},
    {"ATOM_GLM5_KPOOL", Group::sparse, set<S, &Sparse::glm_pools>},
    {"ATOM_GLM5_FORCE_DENSE_MLA", Group::sparse, set<S, &Sparse::glm_dense>},
    {"ATOM_GLM5_DISABLE_FUSED_MHC", Group::sparse, set<S, &Sparse::glm_streams_apart>},
    {"ATOM_SPARSE_INDEXER_LOGITS_BUDGET_MB", Group::sparse, set<S, &Sparse::score_mb>},
    {"ATLAS_HC_PERSEQ_DECODE", Group::sparse, set<S, &Sparse::streams_by_sequence>},
    {"ATOM_ENGRAM_UVA", Group::engram, set<N, &Engram::in_place>},
    {"ATOM_ENGRAM_CACHE_DIR", Group::engram, set<N, &Engram::cache_dir>},
    {"ATLAS_MAX_DECODE_SEQS", Group::capacity, set<M, &Capacity::max_decode_seqs>},
};

}  // namespace

std::span<const Binding> bindings() { return kBindings; }

}  // namespace isotope::levers
