// Configurations in the words of the others. Step 3.5 lists rotary embeddings layer by layer and names layers with experts in a text; LongCat-Flash counts
// layers of two attentions, which are two layers here.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "models/config_source.h"

namespace isotope::models {
namespace {

using nlohmann::json;

/// "3,4,5" or [3, 4, 5].
json layer_list(const json& v) {
  if (!v.is_string()) return v;
  json out = json::array();
  const std::string text = v.get<std::string>();
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (end > at) out.push_back(std::atoll(text.c_str() + at));
    at = end + 1;
  }
  return out;
}

/// The entry of the first layer of that type; a single value is that of all.
json of_type(const json& v, const json& types, const char* type) {
  if (!v.is_array()) return v;
  for (size_t i = 0; i < v.size() && i < types.size(); ++i)
    if (types[i] == type) return v[i];
  return nullptr;
}

}  // namespace

void spell_step(json& c) {
  const auto move = [&](const char* from, const char* to) {
    if (const auto it = c.find(from); it != c.end() && !it->is_null()) c[to] = *it;
  };
  move("moe_router_activation", "scoring_func");
  move("moe_router_scaling_factor", "routed_scaling_factor");
  move("norm_expert_weight", "norm_topk_prob");
  move("share_expert_dim", "shared_expert_intermediate_size");
  if (const auto it = c.find("moe_layers_enum"); it != c.end() && !it->is_null()) c["moe_layers"] = layer_list(*it);
  for (const char* key : {"swiglu_limits", "swiglu_limits_shared"})
    if (const auto it = c.find(key); it != c.end() && it->is_array())
      for (json& v : *it)
        if (v.is_null()) v = 0.0;
  if (c.contains("rope_parameters") && c["rope_parameters"].is_object()) return;
  const json types = c.value("layer_types", json::array()), theta = c.value("rope_theta", json()), part = c.value("partial_rotary_factors", json());
  json laws = json::object();
  for (const char* type : {"full_attention", "sliding_attention"}) {
    json law = {{"rope_type", "default"}};
    if (const json v = of_type(theta, types, type); !v.is_null()) law["rope_theta"] = v;
    if (const json v = of_type(part, types, type); !v.is_null()) law["partial_rotary_factor"] = v;
    laws[type] = law;
  }
  if (const auto it = c.find("rope_scaling"); it != c.end() && it->is_object()) laws["full_attention"].update(*it);
  c["rope_parameters"] = laws;
  for (const char* key : {"rope_theta", "rope_scaling"}) c.erase(key);
}

void spell_longcat(json& c) {
  for (const auto& [from, to] : {std::pair("ffn_hidden_size", "intermediate_size"), std::pair("expert_ffn_hidden_size", "moe_intermediate_size")})
    if (const auto it = c.find(from); it != c.end() && !it->is_null()) c[to] = *it;
  const auto layers = c.find("num_layers");
  if (layers == c.end() || !layers->is_number_integer()) return;  // the parser names what is missing
  const int64_t n = std::clamp<int64_t>(layers->get<int64_t>(), 0, 1 << 20);
  c["num_hidden_layers"] = 2 * n;
  json sparse = json::array();
  for (int64_t i = 0; i < n && n <= 4096; ++i) sparse.push_back(2 * i);
  c["moe_layers"] = std::move(sparse);
}

}  // namespace isotope::models
