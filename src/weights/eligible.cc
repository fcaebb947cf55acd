#include "weights/eligible.h"

#include <fnmatch.h>

#include <algorithm>
#include <regex>
#include <string>

namespace isotope::weights {

using tensor::DType;

namespace {

// Routers decide by small differences; the others are no linear layers.
constexpr std::string_view kNever[] = {"embed", "token_embd", "lm_head", "shared_head", "norm", "ffn_gate_inp", "mlp.gate.weight", "block_sparse_moe.gate.", "router", "shared_expert_gate",
                                       "conv", "position", "token_types", "A_log", "dt_bias", "rope_f", "visual", "vision", "e_score_correction"};

}  // namespace

std::string_view module_of(std::string_view tensor) { return tensor.substr(0, std::min(tensor.rfind('.'), tensor.size())); }

bool eligible(const TensorEntry& e, const Checkpoint& c) {
  const bool source = e.dtype == DType::f32 || e.dtype == DType::f16 || e.dtype == DType::bf16 || e.dtype == DType::f8_g32;
  const bool gguf = c.container() == "gguf";
  if (!source || !e.name.ends_with(".weight") || (e.rank != 2 && !(gguf && e.rank == 3))) return false;
  if (e.name == "output.weight") return false;
  return std::none_of(std::begin(kNever), std::end(kNever), [&](std::string_view part) { return e.name.find(part) != e.name.npos; });
}

bool names_module(std::string_view pattern, std::string_view tensor) {
  const std::string module(module_of(tensor)), p(pattern);
  if (pattern.starts_with("re:")) {
    try {
      return std::regex_match(module, std::regex(p.substr(3)));
    } catch (const std::regex_error&) {
      return false;
    }
  }
  return ::fnmatch(p.c_str(), module.c_str(), 0) == 0 || ::fnmatch(p.c_str(), std::string(tensor).c_str(), 0) == 0;
}

Result<void> check_pattern(std::string_view pattern, std::string source) {
  if (!pattern.starts_with("re:")) return {};
  try {
    const std::regex readable{std::string(pattern.substr(3))};
    return {};
  } catch (const std::regex_error& e) {
    return fail(Code::invalid_argument, "'" + std::string(pattern) + "' is no regular expression: " + e.what(), std::move(source),
                "correct it, or leave out 're:' for a pattern with * and ?");
  }
}

}  // namespace isotope::weights
