// What a request and an engine can be asked for. Plain data, validated by the engine.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isotope/result.h"
#include "isotope/token_texts.h"

namespace isotope {

class TokenMask;
class StepProfile;

enum class KvType { f32, f16, bf16, int8, fp8 };
/// How a sequence's rows become one vector: their mean, the first one, the last one, the largest of each dimension.
enum class Pooling { mean, cls, last, max };
enum class Precision { fast, exact };  ///< exact: float32 activations, weights and KV, for comparison with the oracle

/// How the next token is chosen. Defaults are neutral: greedy needs temperature 0. Order of the steps: logit bias and allowed tokens, grammar mask,
/// min_tokens, repetition / frequency / presence penalties, DRY, temperature, typical, top-k, top-p, min-p, XTC, draw.
struct SamplingParams {
  float temperature = 1.0f;  ///< 0 = greedy
  int32_t top_k = 0;         ///< 0 or -1 = off; >= vocabulary = off
  float top_p = 1.0f, min_p = 0.0f, typical_p = 1.0f;
  float repetition_penalty = 1.0f, presence_penalty = 0.0f, frequency_penalty = 0.0f;
  float dry_multiplier = 0.0f, dry_base = 1.75f;
  int32_t dry_allowed_length = 2, dry_penalty_last_n = -1;   ///< -1 = whole context
  std::vector<std::vector<int32_t>> dry_sequence_breakers;   ///< token sequences that end a match
  float xtc_probability = 0.0f, xtc_threshold = 0.1f;
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<int32_t> allowed_token_ids;                    ///< empty = all
  std::vector<std::vector<int32_t>> bad_words;               ///< token sequences never produced
  std::optional<uint64_t> seed;                              ///< drawn and returned when unset
  int32_t choice = 0;                                        ///< index among n choices; part of the random key
  int64_t max_tokens = 16;                                   ///< 0 = score the prompt only
  int64_t min_tokens = 0;                                    ///< end tokens are masked before that many
  bool ignore_eos = false;
  std::vector<int32_t> stop_token_ids;                       ///< besides the model's own end tokens
  int32_t logprobs = -1;                                     ///< -1 = none; k = the chosen token and the k most likely
  int32_t prompt_logprobs = -1;                              ///< the same for each prompt position
};

struct EngineOptions {
  std::string model;                     ///< GGUF file (first part of split files), Hugging Face directory
  std::string served_name;
  Precision precision = Precision::fast;
  std::optional<KvType> kv_type;         ///< default bf16 (f32 when exact)
  int data_parallel_size = 0;            ///< engines in this process, over one copy of the weights; they share threads and memory, the limits are for each.
                                         ///< 0 = ATOM_DP_SIZE
  std::string dp_load_balance = "least_requests";  ///< or "least_tokens", "round_robin"
  int first_rank = 0;                    ///< number of the first engine in metrics and events
  int first_core = -1;                   ///< first of the process' cores to use, when other programs have the rest; -1 = all are ours
  int threads = 0;                       ///< 0 = physical cores allowed to this process (cpuset and cgroup quota)
  int64_t max_model_len = 0;             ///< 0 = the model's own, cut to what fits (stated in the log)
  int64_t kv_bytes = 0;                  ///< 0 = from memory_fraction of the free memory
  double memory_fraction = 0.9;
  int block_size = 16;
  int max_num_seqs = 256;
  int64_t max_num_batched_tokens = 2048; ///< tokens of one step
  int64_t long_prefill_token_threshold = 0;  ///< cap on one sequence's chunk; 0 = none
  int max_queue = 4096;                  ///< requests alive beyond max_num_seqs before resource_exhausted
  int64_t queue_timeout_ms = 0;          ///< a request that has not started by then ends as unavailable; 0 = it may wait for ever
  bool fair_share = true;                ///< among equal priorities, requests of different share keys take turns by tokens
  bool prefix_caching = true;
  bool chunked_prefill = true;
  int preempt_every = 0;                 ///< test aid: force a preemption every k steps; 0 = never
  std::optional<Pooling> pooling;        ///< of embeddings; default: what the model's files say
  std::optional<bool> normalize;         ///< embeddings have length 1; default: what the model's files say
  std::string isa;                       ///< force an ISA; empty = best
  std::shared_ptr<StepProfile> profile;  ///< null, or where the times of ops are summed up
  std::map<std::string, std::string> hf_overrides;
  std::string online_quant_config;       ///< JSON: to which formats weights are quantized while they load; empty = as the file has them
  bool keep_mtp = true;                  ///< multi-token-prediction heads are loaded; else they are left out and take no memory
  MakeTokenTexts token_texts;            ///< reads the vocabulary of models with n-gram tables; null: such models are refused
  std::string load_dummy;                ///< "empty", "zero" or "xavier": weights that no file holds, shaped by config.json alone; empty = the files'
};

}  // namespace isotope
