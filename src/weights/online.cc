#include "weights/online.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/log.h"
#include "weights/eligible.h"
#include "weights/json.h"
#include "weights/load_all.h"
#include "weights/quantized.h"

namespace isotope::weights {

using nlohmann::ordered_json;
using tensor::HostTensor;

namespace {

constexpr const char* kFlag = "--online_quant_config";

tl::unexpected<Error> wrong(std::string what) {
  return fail(
      Code::invalid_argument, std::move(what), kFlag,
      R"(write for example {"global_quant_config": "ptpc_fp8", "layer_quant_config": {"*expert*": "mxfp4"}, "exclude_layer": ["lm_head"]})");
}

Result<const Scheme*> scheme_of(const ordered_json& v, const std::string& key) {
  if (v.is_null() || (v.is_string() && v.get<std::string>().empty())) return nullptr;
  const Scheme* s = v.is_string() ? scheme_by_name(v.get<std::string>()) : nullptr;
  if (!s) return fail(Code::invalid_argument, fmt::format("{} is {}", key, v.dump().substr(0, 80)), kFlag, "choose one of " + scheme_names());
  return s;
}

/// Where rows have scales of their own a stack of matrices is one tall matrix.
HostTensor as_matrices(const Scheme& s, HostTensor t) {
  if (s.rows == 1 && t.rank == 3) t.shape = {t.shape[0] * t.shape[1], t.shape[2]}, t.rank = 2;
  return t;
}

QuantizedParts shapes_of(const Scheme& s, const TensorEntry& e) {
  const HostTensor t = as_matrices(s, {.dtype = e.dtype, .shape = e.shape, .rank = e.rank});
  const bool stacked = t.rank == 3;
  return parts_of(s, stacked ? t.shape[0] : 1, t.shape[stacked ? 1 : 0], t.cols(), e.dtype);
}

/// As the configuration has it. REQUIRES: the configuration outlives it.
ChooseScheme chooser(const OnlineConfig& config) {
  return [&config](const TensorEntry& e) -> std::optional<Scheme> {
    const auto names = [&](const std::string& pattern) { return names_module(pattern, e.name); };
    if (std::any_of(config.exclude.begin(), config.exclude.end(), names)) return std::nullopt;
    const auto own = std::find_if(config.layers.begin(), config.layers.end(), [&](const auto& p) { return names(p.first); });
    const Scheme* const s = own != config.layers.end() ? own->second : config.global;
    return s ? std::optional(*s) : std::nullopt;
  };
}

}  // namespace

Result<OnlineConfig> parse_online_config(const std::string& text) {
  const ordered_json j = ordered_json::parse(text, nullptr, false);
  if (!j.is_object()) return wrong("'" + text.substr(0, 80) + "' is no JSON object");
  OnlineConfig c;
  for (const auto& [key, v] : j.items()) {
    if (key == "global_quant_config") {
      ISO_TRY(c.global, scheme_of(v, key));
    } else if (key == "layer_quant_config") {
      if (!v.is_object()) return wrong("layer_quant_config is no object");
      for (const auto& [pattern, name] : v.items()) {
        ISO_TRY(const Scheme* const s, scheme_of(name, "layer_quant_config['" + pattern + "']"));
        ISO_CHECK_OK(check_pattern(pattern, kFlag));
        c.layers.emplace_back(pattern, s);
      }
    } else if (key == "exclude_layer") {
      const auto add = [&](const ordered_json& p) { return p.is_string() && (c.exclude.push_back(p.get<std::string>()), true); };
      if (v.is_array() ? !std::all_of(v.begin(), v.end(), add) : !add(v)) return wrong("exclude_layer is no pattern or list of patterns");
      for (const std::string& p : c.exclude) ISO_CHECK_OK(check_pattern(p, kFlag));
    } else {
      return wrong("there is no field '" + key.substr(0, 80) + "'");
    }
  }
  return c;
}

OnlineCheckpoint::OnlineCheckpoint(std::unique_ptr<Checkpoint> in, const ChooseScheme& choose) : in_(std::move(in)) {
  std::map<std::string_view, int> counts;
  std::vector<std::string> odd;
  for (const TensorEntry& e : in_->tensors()) {
    tensors_.push_back(e);
    index_.emplace(e.name, tensors_.size() - 1);
    const std::optional<Scheme> s = eligible(e, *in_) ? choose(e) : std::nullopt;
    if (!s) continue;
    if (!fits(*s, e.shape[size_t(e.rank - 1)])) {
      odd.push_back(e.name);
      continue;
    }
    plans_.emplace(e.name, Plan{&e, *s});
    counts[s->name] += 1;
    TensorEntry& t = tensors_.back();
    t.dtype = decoded_type(shapes_of(*s, e));
    int64_t rows = 1;
    for (int i = 0; i + 1 < e.rank; ++i) rows *= e.shape[size_t(i)];
    t.bytes = uint64_t(rows) * tensor::row_bytes(t.dtype, e.shape[size_t(e.rank - 1)]);
  }
  for (const auto& [name, n] : counts)
    summary_ += fmt::format("{}{} {} to {}", summary_.empty() ? "" : ", ", n, summary_.empty() ? (n == 1 ? "matrix" : "matrices") : "", name);
  if (!odd.empty()) summary_ += fmt::format("; {} stay as they are, their rows do not fill groups: {}", odd.size(), listed(odd));
}

const TensorEntry* OnlineCheckpoint::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

int64_t scale_columns(const Checkpoint& c, const TensorEntry& t) {
  const auto* const online = dynamic_cast<const OnlineCheckpoint*>(&c);
  return online && online->converts(t) ? online->scale_columns(t) : quantized_columns(c, t);
}

bool OnlineCheckpoint::converts(const TensorEntry& t) const { return plans_.contains(t.name); }

const TensorEntry& OnlineCheckpoint::source(const TensorEntry& t) const {
  const auto it = plans_.find(t.name);
  return it == plans_.end() ? t : *it->second.source;
}

Result<Checkpoint::Data> OnlineCheckpoint::stage(const TensorEntry& t) const {
  const TensorEntry& s = source(t);
  const auto buffer = std::make_shared<std::vector<std::byte>>(size_t(s.bytes));
  const auto copy = [&](std::span<Data> data) -> Result<void> {
    std::memcpy(buffer->data(), data[0].view.data, buffer->size());
    return {};
  };
  ISO_CHECK_OK(load_one(*in_, {{&s}, copy}));
  return Data{.view = {.dtype = s.dtype, .data = buffer->data(), .bytes = buffer->size(), .shape = s.shape, .rank = s.rank}, .keep = buffer};
}

Result<Checkpoint::Data> OnlineCheckpoint::convert(const TensorEntry& t, const HostTensor& from) const {
  const Plan& plan = plans_.find(t.name)->second;
  const auto buffer = std::make_shared<std::vector<std::byte>>(size_t(t.bytes));
  ISO_TRY(const QuantizedMatrix m, quantize_matrix(plan.scheme, as_matrices(plan.scheme, from), t.name));
  ISO_CHECK_OK(decode_quantized(m.parts, t.name, *buffer));
  return Data{.view = {.dtype = t.dtype, .data = buffer->data(), .bytes = buffer->size(), .shape = t.shape, .rank = t.rank}, .keep = buffer};
}

Result<Checkpoint::Data> OnlineCheckpoint::read(const TensorEntry& t) const {
  if (!converts(t)) return in_->read(t);
  std::optional<Data> out;
  const auto consume = [&](std::span<Data> data) -> Result<void> {
    ISO_TRY(out, convert(t, data[0].view));
    return {};
  };
  ISO_CHECK_OK(load_one(*in_, {{&source(t)}, consume}));
  return *std::move(out);
}

Result<std::unique_ptr<Checkpoint>> quantize_online(std::unique_ptr<Checkpoint> c, const std::string& json) {
  ISO_TRY(const OnlineConfig config, parse_online_config(json));
  auto out = std::make_unique<OnlineCheckpoint>(std::move(c), chooser(config));
  if (!out->quantized())
    return fail(Code::invalid_argument, "no matrix is quantized by it" + (out->summary().empty() ? "" : " (" + out->summary().substr(2) + ")"),
                kFlag, "check the patterns; only linear layers in a float format can be quantized");
  base::log(base::LogLevel::info, "online quantization: {}", out->summary());
  return out;
}

}  // namespace isotope::weights
