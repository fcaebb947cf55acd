// The resolved settings of each group as plain structs; components take the one they need by const reference. bindings.cc fills them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace isotope::levers {

struct Loading {
  bool disable_mmap = false;     ///< ATOM_DISABLE_MMAP
  int num_threads = 16;          ///< ATOM_LOADER_NUM_THREADS
  bool strict_coverage = true;   ///< ATOM_LOADER_STRICT_COVERAGE
  bool prefetch = true;          ///< ATOM_LOADER_PREFETCH
  int prefetch_threads = 4;      ///< ATOM_LOADER_PREFETCH_THREADS
  int prefetch_block_mb = 16;    ///< ATOM_LOADER_PREFETCH_BLOCK_MB
  bool fadvise = false;          ///< ATOM_LOADER_FADVISE
  bool online_quant_streaming = false;    ///< ATOM_ONLINE_QUANT_STREAMING
  bool online_quant_host_staging = true;  ///< ATOM_ONLINE_QUANT_STREAMING_HOST_STAGING
  int online_quant_threads = 4;           ///< ATOM_ONLINE_QUANT_STREAMING_THREADS
  std::string expert_folder;              ///< ISOTOPE_EXPERT_FOLDER: experts that memory has no room for go to files there; empty = refuse
};

struct Cpu {
  std::string isa;               ///< ISOTOPE_CPU_ISA; empty = best
  int threads = 0;               ///< ISOTOPE_CPU_THREADS; 0 = one a physical core
  int64_t linear_alone = 8'000;      ///< ISOTOPE_CPU_LINEAR_ALONE
  int64_t pass_kib = 640;            ///< ISOTOPE_CPU_PASS_KIB
  int64_t attention_alone = 100'000; ///< ISOTOPE_CPU_ATTENTION_ALONE
};

struct Fusion {
  bool norm_quantize = true;             ///< ATOM_LLAMA_ENABLE_AITER_TRITON_FUSED_RMSNORM_QUANT
  bool act_quantize = true;              ///< ATOM_LLAMA_ENABLE_AITER_TRITON_FUSED_SILU_MUL_QUANT
  bool qk_norm_rope_cache = false;       ///< ATOM_ENABLE_QK_NORM_ROPE_CACHE_QUANT_FUSION
  int64_t qk_norm_max_tokens = 8192;     ///< ATOM_QK_NORM_ROPE_CACHE_FUSION_MAX_TOKENS
  bool model_sensitive_norm = false;     ///< ATOM_USE_MODEL_SENSITIVE_RMSNORM; alone of these it changes numbers
};

struct PrefixCache {
  bool frontend_hash = true;     ///< ATOM_FRONTEND_PREFIX_HASH
  bool fast_walk = true;         ///< ATOM_PREFIX_FAST_WALK
  bool walk_memo = true;         ///< ATOM_PREFIX_WALK_MEMO
  bool checkpoint_demand = true;                ///< ATOM_STATE_CHECKPOINT_DEMAND
  int64_t checkpoint_end_margin = 0;            ///< ATOM_STATE_CHECKPOINT_END_MARGIN
  std::optional<int64_t> checkpoint_interval;   ///< ATOM_STATE_CHECKPOINT_INTERVAL_TOKENS
  bool checkpoint_midstep = false;              ///< ATOM_GDN_STATE_MIDSTEP
  bool checkpoint_check = false;                ///< ATOM_STATE_CHECKPOINT_CHECK_BLOCKS
  bool state_replay = false;                    ///< ATOM_DSV4_STATE_REPLAY
};

struct KvEvents {
  bool enable = false;           ///< ATOM_KV_EVENTS_ENABLE
  std::string publisher = "zmq"; ///< ATOM_KV_EVENTS_PUBLISHER
  std::string endpoint = "tcp://127.0.0.1:5557";  ///< ATOM_KV_EVENTS_ENDPOINT
  std::string topic;             ///< ATOM_KV_EVENTS_TOPIC
  int hwm = 0;                   ///< ATOM_KV_EVENTS_HWM
  int buffer_steps = 10000;      ///< ATOM_KV_EVENTS_BUFFER_STEPS
  std::string replay_endpoint;   ///< ATOM_KV_EVENTS_REPLAY_ENDPOINT
  int replay_buffer_steps = 10000;  ///< ATOM_KV_EVENTS_REPLAY_BUFFER_STEPS
  std::string encoding = "map";  ///< ISOTOPE_KV_EVENTS_ENCODING
};

struct DataParallel {
  int size = 1;                      ///< ATOM_DP_SIZE
  int rank = 0;                      ///< ATOM_DP_RANK
  int rank_local = 0;                ///< ATOM_DP_RANK_LOCAL
  int64_t request_equiv = 512;       ///< ATOM_DP_LB_REQ_EQUIV
  bool session_affinity = false;     ///< ATOM_DP_SESSION_AFFINITY
  int64_t max_sessions = 1'000'000;  ///< ISOTOPE_DP_MAX_SESSIONS
  int64_t balance_token_weight = 360'000;  ///< ATOM_DP_PREFILL_BALANCE_TOKEN_WEIGHT
  double balance_slack = 0.1;              ///< ATOM_DP_PREFILL_BALANCE_SLACK
  int64_t balance_min_tokens = 4096;       ///< ATOM_DP_PREFILL_BALANCE_MIN_TOKENS
};

struct Housekeeping {
  double shutdown_timeout_s = 5;         ///< ATOM_SHUTDOWN_TIMEOUT_S
  double metrics_interval_s = 1;         ///< ATOM_METRICS_UPDATE_INTERVAL_S
  bool device_timer = false;             ///< ATOM_ENABLE_METRICS_DEVICE_TIMER
  bool gc_freeze = true;                 ///< ATOM_GC_FREEZE
  bool gc_debug = false;                 ///< ATOM_GC_DEBUG
  std::vector<int64_t> gc_threshold;     ///< ATOM_GC_THRESHOLD: three numbers, or none for the default
};

struct Program {
  std::string api_key;           ///< ISOTOPE_API_KEY
  std::string client_api_key;    ///< OPENAI_API_KEY
  std::string log_level = "info";///< ISOTOPE_LOG_LEVEL
};

/// When prompts are held back while others decode (src/sched/delayer.h).
struct PrefillDelayer {
  bool enabled = true;                  ///< ATOM_ENABLE_PREFILL_DELAYER
  double target_fill = 0.9;             ///< ATOM_PREFILL_DELAYER_TARGET_FILL
  int64_t ttft_max_ticks = 200;         ///< ATOM_PREFILL_DELAYER_TTFT_MAX_TICKS
  int64_t partial_max_ticks = 100;      ///< ATOM_PREFILL_DELAYER_PARTIAL_MAX_TICKS
  int64_t stall_ticks = 10;             ///< ATOM_PREFILL_DELAYER_STALL_TICKS
  bool cost_gate = true;                ///< ATOM_PREFILL_DELAYER_COST_GATE
  double kv_high = 0.9;                 ///< ATOM_PREFILL_DELAYER_KV_HIGH_WATERMARK
  std::optional<double> kv_low;         ///< ATOM_PREFILL_DELAYER_TOKEN_USAGE_LOW_WATERMARK
  std::optional<double> max_queue_ms;   ///< ATOM_PREFILL_DELAYER_MAX_QUEUE_MS
  int64_t decode_interval = 0;          ///< ATOM_PREFILL_DECODE_INTERVAL; a single scheduler delays only above 0
  bool debug = false;                   ///< ATOM_PREFILL_DELAYER_DEBUG
  int64_t log_every = 1000;             ///< ATOM_PREFILL_DELAYER_LOG_EVERY
};

/// Text before and behind the engine.
struct Text {
  int64_t tokenize_cache_mb = 512;      ///< ATOM_TOKENIZE_CACHE_MB
  std::string delta_reuse = "auto";     ///< ATOM_DETOKENIZER_DELTA_REUSE
  int64_t audit_every = 1000;           ///< ATOM_DETOKENIZER_AUDIT_EVERY
};

/// N-gram tables (DeepSeek V4.1).
struct Engram {
  bool in_place = true;                 ///< ATOM_ENGRAM_UVA: rows are read within the layer; else a thread of its own reads them ahead
  std::string cache_dir = "~/.cache/atom/engram";  ///< ATOM_ENGRAM_CACHE_DIR
};

/// Attention to chosen keys and residual streams.
struct Sparse {
  bool glm_pools = true;                ///< ATOM_GLM5_KPOOL
  bool glm_dense = false;               ///< ATOM_GLM5_FORCE_DENSE_MLA
  bool glm_streams_apart = false;       ///< ATOM_GLM5_DISABLE_FUSED_MHC
  int64_t score_mb = 2048;              ///< ATOM_SPARSE_INDEXER_LOGITS_BUDGET_MB
  bool streams_by_sequence = false;     ///< ATLAS_HC_PERSEQ_DECODE
};

/// Capacities of the scheduler that another engine spells as settings; the flag of the same meaning wins.
struct Capacity {
  std::optional<int64_t> max_decode_seqs;  ///< ATLAS_MAX_DECODE_SEQS, when it is set
};

}  // namespace isotope::levers
