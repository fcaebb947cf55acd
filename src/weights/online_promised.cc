// Plain weights in the formats that a quantization_config promises: what a model's published files would take, without them.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "weights/eligible.h"
#include "weights/json.h"
#include "weights/metadata.h"
#include "weights/online.h"
#include "weights/quantized.h"
#include "weights/quantized_promise.h"

namespace isotope::weights {
namespace {

using nlohmann::json;

/// modelopt names algorithms instead of numbers. The first that a name begins with counts.
struct Algorithm {
  std::string_view name, type;
  int64_t bits, group_size;
  std::array<int64_t, 2> block = {};
};
constexpr Algorithm kAlgorithms[] = {
    {"NVFP4", "float", 4, 16},     {"W4A8_NVFP4", "float", 4, 16}, {"W4A16_NVFP4", "float", 4, 16},           {"MXFP4", "float", 4, 32},
    {"W4A8_MXFP4", "float", 4, 32}, {"MXFP8", "float", 8, 32},      {"FP8_PB", "float", 8, 0, {128, 128}}, {"FP8", "float", 8, 0},
    {"W4A16", "int", 4, 128},      {"W4A8", "int", 4, 128},        {"INT4", "int", 4, 128},                   {"W8A8", "int", 8, 0},
    {"W8A16", "int", 8, 0},        {"INT8", "int", 8, 0},
};

Result<PromisedGroup> algorithm_group(const json& q, const std::string& source) {
  const auto text = q.find("quant_algo");
  const std::string name = text != q.end() && text->is_string() ? text->get<std::string>() : "";
  for (const Algorithm& a : kAlgorithms) {
    if (!name.starts_with(a.name)) continue;
    PromisedGroup g{.bits = a.bits, .group_size = a.group_size, .type = std::string(a.type), .strategy = "", .block = a.block, .targets = {}};
    if (const auto size = q.find("group_size"); a.group_size && size != q.end() && size->is_number_integer()) g.group_size = size->get<int64_t>();
    return g;
  }
  return fail(Code::unsupported, fmt::format("quant_algo is {}", quote_name(name)), source,
              "known without the weights' own files: NVFP4, MXFP4, MXFP8, FP8, INT4 and INT8 with their variants");
}

/// The scheme that a group of matrices asks for.
Result<Scheme> scheme_of(const Promise& p, const PromisedGroup& g) {
  const bool floats = g.type == "float" || (g.type.empty() && p.method == "fp8");
  const int64_t bits = g.bits.value_or(p.method == "fp8" ? 8 : 4), columns = std::max<int64_t>(0, g.group_size.value_or(0));
  if (bits != 4 && bits != 8)
    return fail(Code::unsupported, fmt::format("weights of {} bits", bits), p.source, "4 and 8 bits are supported");
  if (floats && bits == 8 && g.block[0]) return Scheme{"fp8 in blocks", "", Layout::floats8, 8, g.block[1], g.block[0], ""};
  if (floats && bits == 8) return Scheme{"fp8", "", Layout::floats8, 8, columns, 1, ""};
  if (floats) return Scheme{columns == 32 ? "mxfp4" : "nvfp4", "", Layout::fp4, 4, columns ? columns : 16, 1, ""};
  if (bits == 8) return Scheme{"int8", "", Layout::bytes, 8, columns, 1, ""};
  return Scheme{"int4", "", Layout::packed_rows, 4, columns, 1, ""};
}

/// Experts of a model in FP8 may be of four bits (DeepSeek V4).
bool experts_of_fp4(const json& q, const Metadata& m) {
  return q.value("expert_dtype", json()) == "fp4" || m.text("expert_dtype") == "fp4";
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> quantize_as_promised(std::unique_ptr<Checkpoint> c, const json* other) {
  const json* q = quantization_config(c->metadata());
  std::string source = c->metadata().source() + ", quantization_config", method = q ? quantization_method(*q) : "modelopt";
  if (!q && other && other->is_object())
    if (const auto it = other->find("quantization"); it != other->end() && it->is_object())
      q = &*it, source = "hf_quant_config.json beside " + c->metadata().source();
  if (!q || !known_quantization(method)) return c;
  ISO_TRY(Promise p, read_promise(*q, method, source));
  if (!p.weights) return c;
  if (p.groups.empty()) {
    ISO_TRY(PromisedGroup g, algorithm_group(*q, source));
    p.groups.push_back(std::move(g));
  }
  std::vector<Scheme> schemes;
  for (const PromisedGroup& g : p.groups) {
    ISO_TRY(const Scheme s, scheme_of(p, g));
    schemes.push_back(s);
  }
  const bool fp4 = p.method == "fp8" && experts_of_fp4(*q, c->metadata());
  const auto choose = [&](const TensorEntry& e) -> std::optional<Scheme> {
    const PromisedGroup* const g = group_for(p, std::string(module_of(e.name)));
    if (!g) return std::nullopt;
    if (fp4 && e.name.find(".experts.") != e.name.npos) return Scheme{"mxfp4", "", Layout::fp4, 4, 32, 1, ""};
    return schemes[size_t(g - p.groups.data())];
  };
  auto out = std::make_unique<OnlineCheckpoint>(std::move(c), choose);
  base::log(base::LogLevel::info, "quantized as {} says: {}", source, out->quantized() ? out->summary() : "no matrix");
  return out;
}

}  // namespace isotope::weights
