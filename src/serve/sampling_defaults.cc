#include "serve/sampling_defaults.h"

#include <algorithm>
#include <iterator>

#include "base/near_name.h"
#include "serve/fields.h"

namespace isotope::serve {
namespace {

struct FloatRow {
  const char* name;
  std::optional<float> SamplingDefaults::*from;
  float SamplingParams::*to;
  double low, high;
  bool low_open;
};
constexpr FloatRow kFloats[] = {
    {"temperature", &SamplingDefaults::temperature, &SamplingParams::temperature, 0, 1e30, false},
    {"top_p", &SamplingDefaults::top_p, &SamplingParams::top_p, 0, 1, true},
    {"min_p", &SamplingDefaults::min_p, &SamplingParams::min_p, 0, 1, false},
    {"repetition_penalty", &SamplingDefaults::repetition_penalty, &SamplingParams::repetition_penalty, 0, 1e30, true},
};

constexpr std::string_view kNames[] = {"temperature", "top_p", "min_p", "repetition_penalty", "top_k", "max_new_tokens"};

Result<void> refuse_unknown(const Json& object) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(std::begin(kNames), std::end(kNames), key) != std::end(kNames)) continue;
    const std::string_view near = base::nearest_name(key, kNames);
    std::string known;
    for (const std::string_view name : kNames) known += (known.empty() ? "" : ", ") + std::string(name);
    return fail(Code::invalid_argument, "there is no sampling default " + shown(Json(key)), {},
                near.empty() ? "the names are " + known : "did you mean " + std::string(near) + "?");
  }
  return {};
}

}  // namespace

Result<SamplingDefaults> SamplingDefaults::parse(std::string_view json, const std::string& source, Names names) {
  SamplingDefaults d;
  if (json.empty()) return d;
  const std::string remedy = names == Names::only_known ? "correct it" : "correct the file, or start with --generation-config vllm";
  auto value = parse_json(json);
  if (!value) return fail(Code::invalid_argument, value.error().what, source, remedy);
  const auto at_source = [&](Error e) {
    const std::string path(field_path(e));
    return Error{e.code, path.empty() ? e.what : path + ": " + e.what, source, e.remedy.empty() ? remedy : e.remedy};
  };
  auto read = [&]() -> Result<void> {
    ISO_TRY(const Fields f, Fields::of(*value, {}));
    if (names == Names::only_known) ISO_CHECK_OK(refuse_unknown(*value));
    for (const FloatRow& r : kFloats) {
      ISO_TRY(const auto v, f.number(r.name, r.low, r.high, r.low_open));
      if (v) d.*r.from = float(*v);
    }
    ISO_TRY(const auto top_k, f.integer("top_k", -1, INT64_MAX));
    if (top_k) d.top_k = int32_t(std::min<int64_t>(*top_k, INT32_MAX));
    ISO_TRY(d.max_tokens, f.integer("max_new_tokens", 1, INT64_MAX));
    return {};
  }();
  if (!read) return tl::unexpected(at_source(read.error()));
  return d;
}

void SamplingDefaults::merge(const SamplingDefaults& over) {
  for (const FloatRow& r : kFloats) {
    if (over.*r.from) this->*r.from = over.*r.from;
  }
  if (over.top_k) top_k = over.top_k;
  if (over.max_tokens) max_tokens = over.max_tokens;
  if (over.seed) seed = over.seed;
}

void SamplingDefaults::apply(SamplingParams& p) const {
  for (const FloatRow& r : kFloats) {
    if (this->*r.from) p.*r.to = *(this->*r.from);
  }
  if (top_k) p.top_k = *top_k;
  if (seed) p.seed = *seed;
}

Json SamplingDefaults::to_json() const {
  Json out = Json::object();
  for (const FloatRow& r : kFloats) {
    if (this->*r.from) out[r.name] = *(this->*r.from);
  }
  if (top_k) out["top_k"] = *top_k;
  if (max_tokens) out["max_new_tokens"] = *max_tokens;
  if (seed) out["seed"] = *seed;
  return out;
}

}  // namespace isotope::serve
