#include "models/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace isotope::models {
namespace {

using Type = RopeLaw::Type;

struct TypeName {
  std::string_view name;
  Type type;
};
constexpr TypeName kTypes[] = {
    {"default", Type::plain}, {"none", Type::plain},  {"linear", Type::linear},     {"dynamic", Type::dynamic},
    {"llama3", Type::llama3}, {"yarn", Type::yarn},   {"longrope", Type::longrope}, {"su", Type::longrope},
    {"proportional", Type::proportional},
};

std::vector<float> plain_frequencies(double theta, int rot) {
  std::vector<float> f(size_t(rot / 2));
  for (size_t i = 0; i < f.size(); ++i) f[i] = 1.0f / std::pow(float(theta), float(2 * i) / float(rot));
  return f;
}

void apply_llama3(const RopeLaw& law, std::vector<float>& freq) {
  const float old_len = float(law.original_len), factor = float(law.factor);
  const float low = float(law.low_freq_factor), high = float(law.high_freq_factor);
  for (float& f : freq) {
    const float wavelength = float(2 * std::numbers::pi) / f;
    if (wavelength < old_len / high) continue;
    if (wavelength > old_len / low) {
      f /= factor;
    } else if (high > low) {  // Llama 4 has no ramp
      const float smooth = (old_len / wavelength - low) / (high - low);
      f = (1 - smooth) * f / factor + smooth * f;
    }
  }
}

/// The dimension whose wave turns `rotations` times within the original context.
double correction_dim(const RopeLaw& law, double rotations, int rot) {
  return rot * std::log(double(law.original_len) / (rotations * 2 * std::numbers::pi)) / (2 * std::log(law.theta));
}

void apply_yarn(const RopeLaw& law, int rot, std::vector<float>& freq) {
  double low = correction_dim(law, law.beta_fast, rot), high = correction_dim(law, law.beta_slow, rot);
  if (law.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, double(rot - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < freq.size(); ++i) {
    const float ramp = std::clamp((float(i) - float(low)) / float(high - low), 0.0f, 1.0f);  // 0: keep, 1: interpolate
    freq[i] = freq[i] / float(law.factor) * ramp + freq[i] * (1 - ramp);
  }
}

float yarn_scale(const RopeLaw& law) {
  if (law.attention_factor) return float(*law.attention_factor);
  const auto mscale = [&](double m) { return law.factor <= 1 ? 1.0 : 0.1 * m * std::log(law.factor) + 1.0; };
  const double m = law.mscale.value_or(0), all = law.mscale_all_dim.value_or(0);
  return float(m != 0 && all != 0 ? mscale(m) / mscale(all) : mscale(1));
}

float longrope_scale(const RopeLaw& law) {
  if (law.attention_factor) return float(*law.attention_factor);
  return law.factor <= 1 ? 1.0f : float(std::sqrt(1 + std::log(law.factor) / std::log(double(law.original_len))));
}

double dynamic_theta(const RopeLaw& law, int rot, int64_t served_len) {
  const double longer = double(std::max(served_len, law.context_len)) / double(law.context_len);
  return law.theta * std::pow(law.factor * longer - (law.factor - 1), double(rot) / (rot - 2));
}

Result<void> check_length(std::string_view what, const std::vector<float>& v, size_t want) {
  if (v.size() != want) return fail(Code::data_loss, fmt::format("{} has {} entries, {} dimensions turn in pairs", what, v.size(), want * 2));
  for (float f : v)
    if (!(f > 0) || !std::isfinite(f)) return fail(Code::data_loss, fmt::format("{} holds {}, which is no positive number", what, f));
  return {};
}

Result<void> check(const RopeLaw& law, int rot) {
  if (rot < 2 || rot % 2) return fail(Code::unsupported, fmt::format("rotary embedding over {} dimensions: an even number is needed", rot));
  const auto positive = [](double x) { return x > 0 && std::isfinite(x); };
  if (!positive(law.theta)) return fail(Code::data_loss, fmt::format("rope_theta is {}, must be positive", law.theta));
  if (!positive(law.factor)) return fail(Code::data_loss, fmt::format("rope scaling factor is {}, must be positive", law.factor));
  if (!law.divisors.empty()) ISO_CHECK_OK(check_length("rope_freqs.weight", law.divisors, size_t(rot / 2)));
  const bool needs_length = law.type == Type::llama3 || law.type == Type::yarn || law.type == Type::longrope;
  if (needs_length && law.original_len < 2)
    return fail(Code::data_loss, fmt::format("original_max_position_embeddings is {}, must be at least 2", law.original_len));
  if (law.type == Type::llama3 && !(law.low_freq_factor > 0 && law.high_freq_factor >= law.low_freq_factor))
    return fail(Code::data_loss, fmt::format("llama3 rope scaling: low_freq_factor {} must be positive and not above high_freq_factor {}",
                                             law.low_freq_factor, law.high_freq_factor));
  if (law.type == Type::yarn && !(positive(law.beta_fast) && positive(law.beta_slow) && law.theta > 1))
    return fail(Code::data_loss, fmt::format("yarn rope scaling: beta_fast {}, beta_slow {}, rope_theta {}: betas must be positive, theta above 1",
                                             law.beta_fast, law.beta_slow, law.theta));
  if (law.type == Type::longrope) {
    ISO_CHECK_OK(check_length("short_factor", law.short_factor, size_t(rot / 2)));
    ISO_CHECK_OK(check_length("long_factor", law.long_factor, size_t(rot / 2)));
  }
  if (law.type == Type::dynamic && (rot < 4 || law.context_len < 1))
    return fail(Code::unsupported, fmt::format("dynamic rope scaling over {} dimensions and {} positions", rot, law.context_len));
  return {};
}

}  // namespace

std::optional<RopeLaw::Type> rope_type(std::string_view name) {
  for (const TypeName& t : kTypes)
    if (t.name == name) return t.type;
  return std::nullopt;
}

std::string_view rope_type_names() { return "default, linear, dynamic, llama3, yarn, longrope, proportional"; }

Result<ops::Rope> make_rope(const RopeLaw& law, int rot, int64_t served_len) {
  ISO_CHECK_OK(check(law, rot));
  ops::Rope r;
  r.rot = rot;
  r.inv_freq = plain_frequencies(law.type == Type::dynamic ? dynamic_theta(law, rot, served_len) : law.theta, rot);
  switch (law.type) {
    case Type::plain:
    case Type::dynamic:
      break;
    case Type::proportional:
      for (size_t i = 0; i < r.inv_freq.size(); ++i) r.inv_freq[i] = i < size_t(law.part * rot / 2) ? r.inv_freq[i] / float(law.factor) : 0.0f;
      break;
    case Type::linear:
      for (float& f : r.inv_freq) f /= float(law.factor);
      break;
    case Type::llama3:
      apply_llama3(law, r.inv_freq);
      break;
    case Type::yarn:
      apply_yarn(law, rot, r.inv_freq);
      r.scale = yarn_scale(law);
      break;
    case Type::longrope: {
      const std::vector<float>& by = served_len > law.original_len ? law.long_factor : law.short_factor;
      for (size_t i = 0; i < by.size(); ++i) r.inv_freq[i] = 1.0f / (by[i] * std::pow(float(law.theta), float(2 * i) / float(rot)));
      r.scale = longrope_scale(law);
      break;
    }
  }
  for (size_t i = 0; i < law.divisors.size(); ++i) r.inv_freq[i] /= law.divisors[i];
  return r;
}

}  // namespace isotope::models
