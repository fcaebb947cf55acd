// The encoder families, and their configuration from config.json or GGUF keys.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/config_fields.h"
#include "models/encoder_arch.h"
#include "models/override_errors.h"
#include "weights/metadata.h"

namespace isotope::models {
namespace {

using nlohmann::json;
using weights::Checkpoint;
using weights::Metadata;

constexpr std::string_view kBertDefaults = R"({"layer_norm_eps": 1e-12, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu",
                                              "pad_token_id": 0})";
constexpr std::string_view kRobertaDefaults = R"({"layer_norm_eps": 1e-12, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu",
                                                 "pad_token_id": 1})";
constexpr EncoderKey kDistilKeys[] = {{"num_hidden_layers", "n_layers"}, {"num_attention_heads", "n_heads"}, {"hidden_size", "dim"},
                                      {"intermediate_size", "hidden_dim"}, {"hidden_act", "activation"}};

constexpr EncoderArch kEncoders[] = {
    {.name = "bert", .gguf = "bert", .classes = "BertModel BertForMaskedLM BertForPreTraining BertForSequenceClassification", .model_type = "bert",
     .prefix = "bert.", .head = "bert.pooler.dense", .labels = "classifier", .defaults = kBertDefaults},
    {.name = "roberta", .gguf = "", .classes = "RobertaModel RobertaForMaskedLM RobertaForSequenceClassification", .model_type = "roberta",
     .prefix = "roberta.", .padded_positions = true, .head = "classifier.dense", .labels = "classifier.out_proj", .defaults = kRobertaDefaults},
    {.name = "xlm-roberta", .gguf = "", .classes = "XLMRobertaModel XLMRobertaForMaskedLM XLMRobertaForSequenceClassification",
     .model_type = "xlm-roberta", .prefix = "roberta.", .padded_positions = true, .head = "classifier.dense", .labels = "classifier.out_proj",
     .defaults = kRobertaDefaults},
    {.name = "camembert", .gguf = "", .classes = "CamembertModel CamembertForMaskedLM CamembertForSequenceClassification", .model_type = "camembert",
     .prefix = "roberta.", .padded_positions = true, .head = "classifier.dense", .labels = "classifier.out_proj", .defaults = kRobertaDefaults},
    {.name = "distilbert", .gguf = "", .classes = "DistilBertModel DistilBertForMaskedLM DistilBertForSequenceClassification", .model_type = "distilbert",
     .prefix = "distilbert.", .distil = true, .head = "pre_classifier", .labels = "classifier", .head_relu = true, .keys = kDistilKeys,
     .defaults = R"({"layer_norm_eps": 1e-12, "max_position_embeddings": 512, "type_vocab_size": 0, "hidden_act": "gelu", "pad_token_id": 0,
                     "num_hidden_layers": 6, "num_attention_heads": 12, "hidden_size": 768, "intermediate_size": 3072, "vocab_size": 30522})"},
};

constexpr EncoderKey kGgufKeys[] = {{"num_hidden_layers", "block_count"}, {"num_attention_heads", "attention.head_count"},
                                    {"hidden_size", "embedding_length"}, {"intermediate_size", "feed_forward_length"},
                                    {"max_position_embeddings", "context_length"}, {"layer_norm_eps", "attention.layer_norm_epsilon"}};

std::string first_class(const Metadata& m) {
  if (!m.tree() || !m.tree()->is_object()) return {};
  const auto a = m.tree()->find("architectures");
  return a != m.tree()->end() && a->is_array() && !a->empty() && a->front().is_string() ? a->front().get<std::string>() : std::string();
}

bool has_word(std::string_view words, std::string_view word) {
  const size_t at = (" " + std::string(words) + " ").find(" " + std::string(word) + " ");
  return !word.empty() && at != std::string::npos;
}

Result<Metadata> gguf_fields(const Checkpoint& ck, const EncoderArch& arch) {
  const Metadata& m = ck.metadata();
  json out = json::parse(arch.defaults);
  for (const EncoderKey& k : kGgufKeys) {
    const std::string key = fmt::format("{}.{}", arch.gguf, k.theirs);
    if (!m.has(key)) continue;
    ISO_TRY(out[std::string(k.ours)], m.number(key));
  }
  const auto rows = [&](const char* name) { const auto* e = ck.find(name); return e ? e->shape[0] : 0; };
  out["vocab_size"] = rows("token_embd.weight");
  out["max_position_embeddings"] = rows("position_embd.weight");
  out["type_vocab_size"] = ck.find("token_types.weight") && ck.find("token_types.weight")->rank == 2 ? rows("token_types.weight") : 0;
  return Metadata::from_json(out.dump(), m.source());
}

Result<Metadata> hf_fields(const Checkpoint& ck, const EncoderArch& arch) {
  json out = json::parse(arch.defaults);
  const json& given = *ck.metadata().tree();
  out.update(given);
  for (const EncoderKey& k : arch.keys)
    if (const auto it = given.find(std::string(k.theirs)); it != given.end()) out[std::string(k.ours)] = *it;
  return Metadata::from_json(out.dump(-1, ' ', false, json::error_handler_t::replace), ck.metadata().source());
}

/// id2label {"0": "…"} in order, as far as it is complete.
std::vector<std::string> names_of_labels(const Checkpoint& ck, int64_t labels) {
  std::vector<std::string> out;
  const json* tree = ck.metadata().tree();
  if (!tree || !tree->contains("id2label") || !(*tree)["id2label"].is_object()) return out;
  for (int64_t i = 0; i < labels; ++i) {
    const auto it = (*tree)["id2label"].find(std::to_string(i));
    if (it == (*tree)["id2label"].end() || !it->is_string()) return {};
    out.push_back(it->get<std::string>());
  }
  return out;
}

/// sentence-transformers' cross-encoders squash a lone score unless the file says otherwise.
Result<bool> squashes(const Metadata& f, int64_t labels) {
  if (labels != 1) return false;
  for (const char* key : {"sentence_transformers.activation_fn", "sbert_ce_default_activation_function"}) {
    if (!f.has(key)) continue;
    ISO_TRY(const std::string_view name, f.string(key));
    if (name.ends_with("Identity")) return false;
    if (name.ends_with("Sigmoid")) return true;
    return unknown(f, fmt::format("{} is '{}'", key, name), "known: torch.nn.modules.activation.Sigmoid, torch.nn.modules.linear.Identity");
  }
  return true;
}

Result<void> refuse_variants(const Metadata& f) {
  ISO_TRY(const std::string_view positions, f.string_or("position_embedding_type", "absolute"));
  if (positions != "absolute") return unknown(f, fmt::format("position_embedding_type is '{}'", positions), "known: absolute");
  for (const char* flag : {"is_decoder", "add_cross_attention"}) {
    ISO_TRY(const bool set, f.boolean_or(flag, false));
    if (set) return unknown(f, fmt::format("{} is true", flag), "only encoders are supported");
  }
  if (f.has("quantization_config")) return unknown(f, "quantization_config is set", "use the unquantized checkpoint or a GGUF file");
  return {};
}

}  // namespace

std::span<const EncoderArch> encoder_archs() { return kEncoders; }

const EncoderArch* encoder_arch_of(const Checkpoint& ck) {
  const Metadata& m = ck.metadata();
  const bool gguf = ck.container() == "gguf";
  const auto name = gguf ? m.string_or("general.architecture", "") : m.string_or("model_type", "");
  if (!name) return nullptr;
  const std::string cls = gguf ? std::string() : first_class(m);
  for (const EncoderArch& a : kEncoders) {
    if (gguf ? !a.gguf.empty() && a.gguf == *name : cls.empty() ? a.model_type == *name : has_word(a.classes, cls)) return &a;
  }
  return nullptr;
}

bool is_encoder(const Checkpoint& ck) { return encoder_arch_of(ck) != nullptr; }

namespace {

Result<EncoderConfig> parse(const Checkpoint& ck, const std::map<std::string, std::string>& overrides) {
  const EncoderArch* arch = encoder_arch_of(ck);
  if (!arch) return fail(Code::unsupported, "the files hold no encoder", ck.metadata().source(), "give a model of BERT's kind");
  const bool gguf = ck.container() == "gguf";
  ISO_TRY(Metadata f, gguf ? gguf_fields(ck, *arch) : hf_fields(ck, *arch));
  ISO_TRY(f, f.with_overrides(overrides));
  ISO_CHECK_OK(refuse_variants(f));
  EncoderConfig c;
  c.arch = arch->name;
  ISO_TRY(c.layers, in_range(f, "num_hidden_layers", 1, kMaxLayers));
  ISO_TRY(c.hidden, in_range(f, "hidden_size", 1, kMaxWidth));
  ISO_TRY(c.ffn, in_range(f, "intermediate_size", 1, kMaxWidth));
  ISO_TRY(c.vocab, in_range(f, "vocab_size", 1, kMaxVocab));
  ISO_TRY(c.types, in_range(f, "type_vocab_size", 0, 1 << 16));
  ISO_TRY(const int64_t heads, in_range(f, "num_attention_heads", 1, kMaxHeads));
  if (c.hidden % heads) return wrong(f, fmt::format("hidden_size {} is no multiple of num_attention_heads {}", c.hidden, heads));
  c.heads = int(heads), c.head_dim = int(c.hidden / heads);
  if (c.head_dim % 8 || c.head_dim > 512) return unknown(f, fmt::format("heads have {} dimensions", c.head_dim), "multiples of 8 up to 512 are supported");
  if (arch->padded_positions && !gguf) {
    ISO_TRY(const int64_t padding, in_range(f, "pad_token_id", 0, kMaxVocab));
    c.first_position = int32_t(padding) + 1;
  }
  ISO_TRY(const int64_t positions, in_range(f, "max_position_embeddings", c.first_position + 1, 1 << 20));
  c.context_length = positions - c.first_position;
  ISO_TRY(const double eps, f.number("layer_norm_eps"));
  if (!(eps >= 0 && eps < 1)) return wrong(f, fmt::format("layer_norm_eps is {}, must be 0 to 1", eps));
  c.norm_eps = float(eps);
  ISO_TRY(c.act, parse_act(f));
  const auto* labels = ck.find(gguf ? "cls.output.weight" : std::string(arch->labels) + ".weight");
  if (gguf || first_class(ck.metadata()).ends_with("ForSequenceClassification")) c.labels = labels && labels->rank == 2 ? labels->shape[0] : gguf ? 0 : 1;
  c.label_names = names_of_labels(ck, c.labels);
  c.head_relu = arch->head_relu;
  ISO_TRY(c.sigmoid, squashes(f, c.labels));
  return c;
}

}  // namespace

Result<EncoderConfig> parse_encoder_config(const Checkpoint& ck, const std::map<std::string, std::string>& overrides) {
  Result<EncoderConfig> c = parse(ck, overrides);
  if (!c) blame_override(overrides, c.error());
  return c;
}

}  // namespace isotope::models
