// The scaling laws of rotary embeddings. Every law ends as inverse frequencies and one factor on cos and sin (ops::Rope), so that no kernel knows them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "isotope/result.h"
#include "ops/ops.h"

namespace isotope::models {

/// What a configuration says about one rotary embedding. Numbers follow transformers' modeling_rope_utils, in float32 as there.
struct RopeLaw {
  enum class Type {
    plain,     ///< RoFormer, arXiv:2104.09864
    linear,    ///< position interpolation, arXiv:2306.15595: frequencies / factor
    dynamic,   ///< NTK-aware base, fixed for the process by the served length (contract 1) instead of growing with each sequence
    llama3,    ///< Llama 3.1: low frequencies / factor, high ones kept, a ramp between
    yarn,      ///< arXiv:2309.00071
    longrope,  ///< arXiv:2402.13753: one factor a dimension, short or long by the served length
    proportional,  ///< the first `part` of the frequencies of a whole head, zeros (no rotation) for the rest (Gemma 4)
  };
  Type type = Type::plain;
  double theta = 10000.0;
  double factor = 1.0;
  double part = 1.0;         ///< proportional
  int64_t original_len = 0;  ///< context before scaling; llama3, yarn, longrope
  int64_t context_len = 0;   ///< max_position_embeddings; dynamic
  std::optional<double> attention_factor;         ///< yarn, longrope: given instead of computed
  std::optional<double> mscale, mscale_all_dim;   ///< yarn
  double beta_fast = 32.0, beta_slow = 1.0;       ///< yarn
  bool truncate = true;                           ///< yarn: whole dimensions bound the ramp
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  ///< llama3
  std::vector<float> short_factor, long_factor;   ///< longrope, [rot/2]
  std::vector<float> divisors;                    ///< GGUF rope_freqs.weight, [rot/2]: frequencies are divided by them; empty = none
};

/// Names as config.json spells them ("default", "su" …); nullopt if unknown.
std::optional<RopeLaw::Type> rope_type(std::string_view name);
/// The spellings rope_type() knows, for messages.
std::string_view rope_type_names();

/// Computes `rot` / 2 frequencies. `served_len`: the longest sequence this process will run; longrope and dynamic choose by it, once.
/// Fails when the law's own numbers do not fit (odd rot, factor list of another length, factor <= 0).
Result<ops::Rope> make_rope(const RopeLaw&, int rot, int64_t served_len);

}  // namespace isotope::models
