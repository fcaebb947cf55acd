// Multi-head latent attention as config.json spells it.
#include <fmt/format.h>

#include <cmath>

#include "models/config_fields.h"

namespace isotope::models {

Result<void> parse_latent(const ConfigSource& s, ModelConfig& c) {
  const weights::Metadata& f = s.fields;
  LatentConfig& l = c.latent;
  ISO_TRY(l.q_rank, in_range_or(f, "q_lora_rank", 0, kMaxWidth, 0));
  ISO_TRY(const int64_t rank, in_range(f, "kv_lora_rank", 1, kMaxHeadDim));
  ISO_TRY(const int64_t plain, in_range(f, "qk_nope_head_dim", 1, kMaxHeadDim));
  ISO_TRY(const int64_t turning, in_range(f, "qk_rope_head_dim", 0, kMaxHeadDim));
  if (turning % 2) return wrong(f, fmt::format("qk_rope_head_dim is {}, must be even", turning));
  ISO_TRY(const int64_t value, in_range(f, "v_head_dim", 1, kMaxHeadDim));
  l.kv_rank = int(rank), l.plain = int(plain), l.turning = int(turning), l.value = int(value);
  ISO_TRY(l.gated, f.boolean_or("latent_head_gate", false));
  ISO_TRY(l.wide_gate, f.boolean_or("latent_gate", false));
  // LongCat-Flash scales what it has compressed to the size of the hidden state.
  const auto scale = [&](const char* key, int64_t width) -> Result<float> {
    ISO_TRY(const bool scaled, f.boolean_or(key, false));
    return scaled && width > 0 ? float(std::sqrt(double(c.hidden) / double(width))) : 1.0f;
  };
  ISO_TRY(l.q_scale, scale("mla_scale_q_lora", l.q_rank));
  ISO_TRY(l.kv_scale, scale("mla_scale_kv_lora", l.kv_rank));
  c.kv_heads = 1;
  c.head_dim = l.turning + l.kv_rank;
  return {};
}

}  // namespace isotope::models
