// config.json of a Hugging Face directory: which row of the architecture list, and where the text model's fields stand.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "models/config_fields.h"
#include "weights/json.h"
#include "weights/quantized.h"

namespace isotope::models {
namespace {

using nlohmann::json;
using weights::Metadata;

std::string text_of(const json& o, const char* key) {
  const auto it = o.find(key);
  return it != o.end() && it->is_string() ? it->get<std::string>() : std::string();
}

/// transformers 5 writes numbers that JSON lacks as {"__float__": "Infinity"}. They become what the parser makes of the bare words: the largest number, null.
void read_floats(json& value) {
  const auto word = value.is_object() && value.size() == 1 ? value.find("__float__") : value.end();
  if (value.is_object() && word != value.end() && word->is_string()) {
    const std::string text = *word;
    constexpr double kMost = std::numeric_limits<double>::max();
    value = text == "Infinity" ? json(kMost) : text == "-Infinity" ? json(-kMost) : json();
  } else if (value.is_structured()) {
    for (json& v : value) read_floats(v);
  }
}

/// The row, or an error that says what the file names and what is supported.
Result<const Arch*> pick(const Metadata& m, const json& root, const json& text) {
  std::string named;
  if (const auto a = root.find("architectures"); a != root.end() && a->is_array() && !a->empty() && a->front().is_string()) named = a->front();
  const std::string type = text_of(text, "model_type");
  const Arch* arch = named.empty() ? arch_by_model_type(type) : arch_by_class(named, type);
  if (!arch)
    return unknown(m, named.empty() ? "model_type is " + weights::quote_name(type) : "architectures names " + weights::quote_name(named),
                   "supported: " + supported_archs());
  if (!type.empty() && !is_model_type(*arch, type))
    return unknown(m, fmt::format("model_type is {}, the architecture '{}' expects '{}'", weights::quote_name(type), arch->name, arch->model_type),
                   "supported: " + supported_archs());
  return arch;
}

/// Spellings of one number. Where a file uses one of them, the class' default for another one must not hide it.
constexpr std::array<std::string_view, 4> kExperts = {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"};
constexpr std::array<std::string_view, 7> kUsed = {"num_experts_per_tok", "moe_k", "moe_topk", "num_experts_per_token", "experts_per_token", "moe_top_k",
                                                   "top_k_experts"};
constexpr std::array<std::string_view, 2> kKvHeads = {"num_key_value_heads", "num_attention_groups"};

void drop_hidden_defaults(std::span<const std::string_view> spellings, const json& text, json& out) {
  const auto in_file = [&](std::string_view key) { return text.contains(key) && !text[key].is_null(); };
  if (std::none_of(spellings.begin(), spellings.end(), in_file)) return;
  for (std::string_view key : spellings)
    if (!in_file(key)) out.erase(std::string(key));
}

}  // namespace

Result<ConfigSource> hf_source(const weights::Checkpoint& c, const std::map<std::string, std::string>& overrides) {
  const Metadata& m = c.metadata();
  const json& root = *m.tree();
  const auto nested = root.find("text_config");
  const bool wrapped = nested != root.end() && nested->is_object();
  const json& text = wrapped ? *nested : root;
  ISO_TRY(const Arch* arch, pick(m, root, text));

  json out = json::parse(arch->defaults);
  for (const char* shared : {"tie_word_embeddings", "eos_token_id", "bos_token_id", "quantization_config"})
    if (const auto it = root.find(shared); it != root.end()) out[shared] = *it;
  out.update(text);
  for (const std::span<const std::string_view> spellings : {std::span<const std::string_view>(kExperts), std::span<const std::string_view>(kUsed),
                                                            std::span<const std::string_view>(kKvHeads)})
    drop_hidden_defaults(spellings, text, out);
  read_floats(out);
  if (arch->name == "step3p5") spell_step(out);
  if (arch->name == "longcat_flash") spell_longcat(out);
  ISO_TRY(Metadata fields, Metadata::from_json(out.dump(-1, ' ', false, json::error_handler_t::replace), m.source()));
  ISO_TRY(fields, fields.with_overrides(overrides));
  ISO_TRY(const std::string_view method, fields.string_or("quantization_config.quant_method", ""));
  // MXFP4 experts come as blocks and scales, which the rows of the family name.
  const bool by_rows = arch->moe && !arch->moe->mxfp4_gate_up.empty() && method == "mxfp4";
  if (fields.has("quantization_config") && !by_rows && !weights::known_quantization(method))
    return unknown(m, "quantization_config is set: " + fields.text("quantization_config"),
                   "known methods: " + weights::quantization_names() + ", and mxfp4 of GPT-OSS; use such a checkpoint, the unquantized one, or a GGUF file");
  return ConfigSource{arch, false, std::move(fields)};
}

}  // namespace isotope::models
