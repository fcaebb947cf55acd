// The engine's public face: token ids in, token events out. Text (templates, tokenizers, stop strings) lives above it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isotope/options.h"
#include "isotope/result.h"
#include "isotope/token_mask.h"

namespace isotope {

/// What the model's files say about its vocabulary and chat format; plain facts, so that the text layer needs no file reader.
struct VocabSource {
  std::string tokenizer_json;   ///< content of tokenizer.json, or empty
  std::string tokenizer_config_json, generation_config_json, special_tokens_map_json;
  // From GGUF metadata (tokenizer.ggml.*); used when tokenizer_json is empty.
  std::string gguf_model, gguf_pre;          ///< "gpt2", "llama", "bert", "t5" … and the pre-tokenizer name
  std::vector<std::string> tokens, merges;
  std::vector<float> scores;
  std::vector<int32_t> token_types;          ///< 1 normal 2 unknown 3 control 4 user-defined 5 unused 6 byte
  int32_t bos_id = -1, eos_id = -1, eot_id = -1, unk_id = -1, pad_id = -1;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
  std::string precompiled_charsmap;          ///< raw bytes (Unigram normalizer)
  std::string chat_template;                 ///< tokenizer.chat_template or chat_template.jinja
  std::vector<std::pair<std::string, std::string>> named_templates;  ///< "tool_use" …
  int64_t vocab_size = 0;                    ///< rows of the output head
};

struct ModelInfo {
  std::string name, architecture, path, file_type;  ///< file_type: "Q4_K_M", "bf16" …
  int64_t layers = 0, hidden = 0, vocab = 0, parameters = 0, weight_bytes = 0;
  int64_t context_length = 0;     ///< what the model was trained for
  int64_t max_model_len = 0;      ///< what this engine serves
  int64_t kv_bytes_per_token = 0;
  std::vector<int32_t> eos_ids;   ///< all end-of-generation tokens the files name
  bool generates = true;          ///< false: an encoder, which makes vectors and no text
  std::string fingerprint;        ///< system_fingerprint: binary, ISA, KV type and lever set, hashed
  std::string cut_by;             ///< the setting that cut max_model_len, which errors name; empty = none
};

enum class FinishReason { none, stop, length, abort, error };

struct TokenLogprob {
  int32_t token = -1;
  float logprob = 0;  ///< natural log; never -inf or NaN (floor -9999)
  int32_t rank = 0;   ///< 1 = most likely
};

/// Delivered on the engine thread; the sink must return at once (post it elsewhere). After `finish != none` no more events come for the id.
struct TokenEvent {
  uint64_t id = 0;
  std::span<const int32_t> tokens;                         ///< new tokens of this step; valid during the call
  std::span<const TokenLogprob> logprobs;                  ///< per new token when asked: the chosen one
  std::span<const std::vector<TokenLogprob>> top_logprobs; ///< per new token: most likely first
  /// Once, with the first event: [prompt]. [0] is empty; [i][0] is the prompt's own token, after it come the k most likely, best first (the own one may be
  /// among them again).
  std::span<const std::vector<TokenLogprob>> prompt_logprobs;
  FinishReason finish = FinishReason::none;
  /// The end token that stopped it (not part of `tokens`), or -1. When log-probabilities were asked, `logprobs` and `top_logprobs` then have one
  /// entry more than `tokens`: the end token's. (Evaluations that score one generated token rely on it, also when that token ends the text.)
  int32_t stop_token = -1;
  std::optional<Error> error;
};
using TokenSink = std::function<void(const TokenEvent&)>;

/// Why the cached part of a prompt ends where it ends; see docs/prefix-cache.md.
enum class CacheReason { none, cold, token, salt, lora, evicted, block_edge, window, no_checkpoint };

/// What shaped a request; complete once it has finished. Times in seconds. output_tokens counts a final end token too, as usage numbers do;
/// cumulative_logprob sums the chosen tokens' log-probabilities, if they were asked for, the end token's included.
struct RequestStats {
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  CacheReason cache_reason = CacheReason::none;
  int64_t cache_position = -1;     ///< token of the prompt at which cache_reason holds; -1 = none
  int chunks = 0, preemptions = 0;
  int delayer_holds = 0;  ///< steps that the prefill delayer let pass while the request waited
  int checkpoint_waits = 0;        ///< steps in which it waited for a state that another request was about to store
  int64_t replayed_tokens = 0;     ///< of what was found in the cache, computed once more to have the last windows again
  double queue_s = 0, prefill_s = 0, decode_s = 0, ttft_s = 0;
  double cumulative_logprob = 0;
  uint64_t seed = 0;
};

/// One decision that shaped a request. Neighbours of the same kind and reason are counted, not repeated, unless each says something of its own (chunks).
struct Decision {
  enum class Kind : uint8_t { routed, held, admitted, chunk, preempted, first_token, finished, awaited, stored };
  Kind kind = Kind::routed;
  double at_s = 0, last_s = 0;  ///< since the request was submitted; last_s is the latest of those counted
  int64_t count = 1;
  int64_t step = 0;             ///< number of the engine's step, where one took part
  /// admitted: found in the cache; chunk: computed; preempted: thrown away; routed: charged to the rank; finished: output tokens; held, awaited: steps;
  /// stored: covered by the state of recurrent layers that was stored.
  int64_t tokens = 0;
  int64_t position = 0;         ///< admitted: tokens looked up; chunk: where it begins; routed: the rank
  std::string_view reason = {}; ///< static text: why, where there was a choice
};

/// All that is known of how a request went.
struct RequestRecord {
  uint64_t id = 0;
  std::string label;
  int rank = 0;
  FinishReason finish = FinishReason::none;  ///< none: still alive
  int64_t submitted_ns = 0;                  ///< on a clock that all engines of a process share
  RequestStats stats;
  std::vector<Decision> decisions;           ///< in order of time: the first and the latest ones, `dropped` between them are not kept
  int64_t dropped = 0;
};

struct Request {
  uint64_t id = 0;                 ///< chosen by the caller, unique while alive
  std::string label;               ///< name by which records() finds it, shared by the choices of one call; may be empty
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int priority = 0;                ///< lower runs first
  std::string share_key;           ///< whose share it takes (API key, user); empty is a key like any other
  int64_t deadline_ms = 0;         ///< if it has not started by then (from submission) it ends as unavailable; 0 = the engine's own limit
  std::string cache_salt;
  int64_t salt_from = 0;           ///< first token of the prompt that only requests of the same salt may share
  int64_t pin_tokens = 0;          ///< that many leading tokens are kept in the prefix cache …
  double pin_s = 0;                ///< … for that long, as far as the cache is large enough
  bool use_prefix_cache = true;
  int rank = -1;                   ///< wish for a data-parallel rank; -1 = the router's choice
  std::string session;             ///< conversation it belongs to, for ATOM_DP_SESSION_AFFINITY; empty = none
  bool session_has_parent = false; ///< the session came out of another one
  std::unique_ptr<TokenMask> mask; ///< grammar, or null
  TokenSink sink;
};

struct EngineStats {
  int engines = 1;                                                   ///< data-parallel ranks in this process; the rest are sums over them
  int64_t running = 0, waiting = 0;
  int64_t blocks_total = 0, blocks_free = 0, blocks_evictable = 0;   ///< of the first KV group
  int64_t steps = 0, preemptions = 0, prompt_tokens = 0, generation_tokens = 0;
  int64_t prefix_queries = 0, prefix_hits = 0;                       ///< in tokens
  double last_step_age_s = 0;
  int retry_after_s = 1;                                             ///< when a request that is refused now should come again
};

/// Where an engine publishes what its prefix cache holds; see docs/kv-events.md.
struct KvEventSource {
  int rank = 0;                          ///< data-parallel rank
  std::string publisher;                 ///< "zmq" or "null"
  std::string endpoint, replay_endpoint; ///< as bound; empty = none
  std::string topic;
  int64_t hwm = 0, queue = 0, history = 0;  ///< messages, batches, batches
};

/// How a model makes vectors out of texts.
struct PoolingInfo {
  Pooling pooling = Pooling::last;
  bool normalize = true;
  int64_t dimensions = 0;
  int64_t max_tokens = 0;                ///< of one input
  bool shortens = false;                 ///< trained so that a vector's beginning is a vector too
  std::vector<int64_t> lengths;          ///< the beginnings it was trained for; empty = any
  int64_t labels = 0;                    ///< outputs of its classification head; 0 = it has none
  std::vector<std::string> label_names;  ///< [labels] or empty
  bool sigmoid = false;                  ///< the head's lone output is squashed into 0 to 1
  int64_t token_types = 0;               ///< second texts of pairs may be told from first ones
};

struct PoolInput {
  std::vector<int32_t> tokens;
  int64_t second = -1;                   ///< token with which the second text of a pair begins; -1 = one text
};

/// Texts to vectors: one for each input, in their order.
struct PoolRequest {
  std::vector<PoolInput> inputs;
  bool classify = false;                 ///< the classification head's outputs rather than the pooled rows
  std::optional<Pooling> pooling = {};
  std::optional<bool> normalize = {};
  bool activation = true;                ///< false: the head's output as it is, also where PoolingInfo says sigmoid
  using Vectors = std::vector<std::vector<float>>;
  /// Called once, on the thread that computes; must return at once.
  std::function<void(Result<Vectors>)> done;
  std::shared_ptr<const std::atomic<bool>> cancelled = {};  ///< null, or true when nobody waits any more
};

struct LoadProgress {
  std::string phase;       ///< "reading", "packing" …
  int64_t done = 0, total = 0;  ///< bytes
};

namespace levers { class Levers; }  // src/levers: an engine gets the resolved settings, it never reads the environment

class Engine {
 public:
  /// Loads the model. `progress` may be null. Fails with what, where and remedy; never throws.
  static Result<std::unique_ptr<Engine>> open(const EngineOptions&, const levers::Levers&, std::function<void(const LoadProgress&)> progress = {});
  virtual ~Engine() = default;

  virtual const ModelInfo& info() const = 0;
  virtual const VocabSource& vocab() const = 0;

  /// Validates and queues. Thread-safe. The sink gets exactly one final event for each request that was accepted.
  virtual Result<void> submit(Request) = 0;
  /// Ends a request (client gone, stop string found). Thread-safe; unknown ids are ignored. The final event has the given reason.
  virtual void finish(uint64_t id, FinishReason reason) = 0;
  virtual std::optional<RequestStats> stats(uint64_t id) const = 0;  ///< running, or among the last 4096 finished
  /// What shaped the request of this id or the requests of this label; of an empty name: the latest ones. At most `most`, the newest first, among those alive
  /// and the last 4096 finished.
  virtual std::vector<RequestRecord> records(std::string_view name, size_t most) const { return (void)name, (void)most, std::vector<RequestRecord>{}; }
  /// Nothing for a model that makes no vectors.
  virtual std::optional<PoolingInfo> pooling() const { return {}; }
  /// Validates and queues. Thread-safe. Errors name the input.
  virtual Result<void> pool(PoolRequest) { return fail(Code::unsupported, "the model makes no embeddings", info().name, "serve a model that does"); }
  virtual EngineStats stats() const = 0;                             ///< never waits for a step
  virtual Result<void> reset_prefix_cache() = 0;
  /// Stops admitting, lets running requests end until `drain_s` is over, aborts the rest. Idempotent.
  virtual void shutdown(double drain_s) = 0;
  /// One for each rank that publishes KV events.
  virtual std::vector<KvEventSource> kv_event_sources() const { return {}; }
  /// Prometheus text of the engine's own metrics.
  virtual std::string metrics() const = 0;
};

}  // namespace isotope
