#include "quantize_plan.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

#include "gguf_vocab.h"
#include "load.h"
#include "models/to_gguf.h"
#include "weights/eligible.h"
#include "weights/json.h"
#include "weights/metadata.h"
#include "weights/summary.h"

namespace isotope::app {
namespace {

using tensor::DType;
using weights::Checkpoint;
using weights::Conversion;
using weights::TensorEntry;

bool is_float(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; }

int64_t product(std::span<const int64_t> shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

/// What a tensor belongs to, by its name in either container.
std::string kind_of(std::string_view name, size_t rank) {
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  if (rank < 2 || has("norm")) return "norms and other vectors";
  if (has("token_embd") || has("embed_tokens")) return "embedding";
  if (name == "output.weight" || has("lm_head")) return "output";
  if (has("_exps.") || has("experts.")) return "experts";
  if (has("ffn_gate_inp") || has("mlp.gate.") || has("router")) return "router";
  if (has("attn")) return "attention";
  if (has("ffn") || has("mlp") || has("feed_forward")) return "feed-forward";
  return "other";
}

class Lines {
 public:
  explicit Lines(QuantizePlan& p) : p_(p) {}
  void add(std::string_view name, size_t rank, int64_t parameters, int64_t before, int64_t after, std::string_view type) {
    const std::string kind = kind_of(name, rank);
    auto at = std::find_if(p_.lines.begin(), p_.lines.end(), [&](const PlanLine& l) { return l.kind == kind; });
    if (at == p_.lines.end()) at = p_.lines.insert(at, {.kind = kind});
    at->tensors += 1, at->parameters += parameters, at->before += before, at->after += after;
    at->types[std::string(type)] += parameters;
    p_.parameters += parameters, p_.before += before, p_.after += after;
    p_.working = std::max(p_.working, before + after);
  }

 private:
  QuantizePlan& p_;
};

Result<DType> parse_type(const std::string& name, const std::string& flag) {
  const tensor::Format* f = tensor::format_by_name(name);
  std::vector<float> zeros(f ? size_t(f->block) : 0);
  std::vector<std::byte> block(f ? size_t(f->bytes) : 0);
  if (f && f->ggml_type >= 0 && tensor::quantize(f->dtype, zeros, block.data())) return f->dtype;
  return fail(Code::invalid_argument, "'" + name + "' is no type that can be written", flag,
              "choose one of F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K MXFP4");
}

Result<weights::TypeOptions> type_options(const QuantizeOptions& o, std::string_view type) {
  weights::TypeOptions t{.type = weights::file_type_by_name(type), .pure = o.pure};
  if (!t.type) {
    const bool scheme = weights::scheme_by_name(type) != nullptr;
    return fail(Code::invalid_argument, fmt::format("'{}' is no type of GGUF files", type), "--type",
                (scheme ? "name a folder as OUT (not *.gguf) for it, or choose one of " : "choose one of ") + weights::file_type_names());
  }
  if (!o.output_type.empty()) {
    ISO_TRY(t.output, parse_type(o.output_type, "--output-tensor-type"));
  }
  if (!o.embedding_type.empty()) {
    ISO_TRY(t.embedding, parse_type(o.embedding_type, "--token-embedding-type"));
  }
  for (const std::string& s : o.tensor_types) {
    const size_t eq = s.rfind('=');
    if (eq == s.npos || eq == 0)
      return fail(Code::invalid_argument, "'" + s + "' is not PATTERN=TYPE", "--tensor-type",
                  "write for example --tensor-type 'blk.*.attn_v.weight=Q8_0'");
    ISO_TRY(const DType d, parse_type(s.substr(eq + 1), "--tensor-type"));
    t.by_name.emplace_back(s.substr(0, eq), d);
  }
  return t;
}

/// A GGUF file's own keys and tensors.
Result<models::GgufModel> from_gguf(const Checkpoint& c) {
  models::GgufModel m;
  const weights::Metadata& meta = c.metadata();
  for (const std::string& key : meta.keys())
    if (!key.starts_with("split.") && key != "general.alignment") m.values.put(key, *meta.gguf(key));
  const std::string arch(meta.string_or("general.architecture", "").value_or(""));
  ISO_TRY(m.layers, meta.integer_or(arch + ".block_count", 0));
  ISO_TRY(m.experts, meta.integer_or(arch + ".expert_count", 0));
  m.tied = c.find("output.weight") == nullptr;
  for (const TensorEntry& e : c.tensors()) {
    const std::vector<int64_t> shape(e.shape.begin(), e.shape.begin() + e.rank);
    m.tensors.push_back({.as = {e.name, shape, e.dtype}, .from = {{.tensor = &e, .rows = product(std::span(shape).first(shape.size() - 1))}}});
  }
  return m;
}

Result<models::GgufModel> from_folder(const QuantizePlan& p, const QuantizeOptions& o) {
  ISO_TRY(models::GgufModel m, models::to_gguf(*p.files));
  std::filesystem::path folder(p.path);
  if (!folder.has_filename()) folder = folder.parent_path();
  m.values.put("general.name", folder.filename().string());
  ISO_CHECK_OK(put_vocab(m.values, p.files->vocab(), m.vocab, o.pre));
  return m;
}

Result<void> refuse_requantizing(const QuantizeOptions& o, const Conversion& t) {
  for (const weights::SourceRows& s : t.from) {
    const DType from = s.tensor->dtype;
    if (o.allow_requantize || is_float(from) || from == t.as.dtype) continue;
    return fail(Code::invalid_argument,
                fmt::format("tensor {} is {} already; quantizing it again adds the errors of both", t.as.name, tensor::format(from).name), o.model,
                "start from the F16 or BF16 model, or say --allow-requantize");
  }
  return {};
}

/// A wish that nothing can come of is a mistake: patterns that name no tensor.
Result<void> check_tensor_types(const weights::TypeOptions& types, const std::vector<Conversion>& tensors) {
  for (const auto& [pattern, type] : types.by_name) {
    const auto named = [&p = pattern](const Conversion& t) { return ::fnmatch(p.c_str(), t.as.name.c_str(), 0) == 0; };
    if (std::none_of(tensors.begin(), tensors.end(), named))
      return fail(Code::invalid_argument, "'" + pattern + "' names no tensor of the model", "--tensor-type",
                  "patterns fit whole GGUF names, as in 'blk.*.attn_v.weight=Q8_0'; `isotope inspect --tensors` lists those of a GGUF file");
  }
  return {};
}

/// Exclusions are often copied from one model to the next: one that names nothing is told, not refused. `names`: whether a pattern fits a tensor.
template <typename Tensors, typename Names>
void tell_idle_exclusions(const QuantizeOptions& o, QuantizePlan& p, const Tensors& tensors, const Names& names) {
  for (const std::string& pattern : o.ignore)
    if (std::none_of(tensors.begin(), tensors.end(), [&](const auto& t) { return names(pattern, t); }))
      p.remarks.push_back("--ignore '" + pattern + "' names no tensor");
}

/// Settings of the one container say nothing to the other.
Result<void> check_container(const QuantizeOptions& o) {
  const QuantizeOptions plain;
  const struct {
    bool gguf, given;
    const char* flag;
  } rows[] = {{true, !o.tensor_types.empty(), "--tensor-type"},
              {true, !o.output_type.empty(), "--output-tensor-type"},
              {true, !o.embedding_type.empty(), "--token-embedding-type"},
              {true, o.pure, "--pure"},
              {true, o.allow_requantize, "--allow-requantize"},
              {true, o.force, "--force"},
              {true, !o.pre.empty(), "--pre"},
              {false, o.shard_gb != plain.shard_gb, "--shard-gb"}};
  for (const auto& r : rows)
    if (r.given && r.gguf != o.gguf())
      return fail(Code::invalid_argument, fmt::format("it says nothing to a {}", o.gguf() ? "GGUF file" : "folder of safetensors"), r.flag,
                  r.gguf ? "leave it out, or end OUT in .gguf" : "leave it out, or name a folder as OUT");
  return {};
}

Result<void> plan_gguf(const QuantizeOptions& o, QuantizePlan& p) {
  ISO_TRY(weights::TypeOptions types, type_options(o, o.type.empty() ? "Q4_K_M" : o.type));
  p.type = types.type->name;
  p.nominal_bits = weights::format_bits(types.type->main);
  const bool gguf = p.files->container() == "gguf";
  ISO_TRY(models::GgufModel m, gguf ? from_gguf(*p.files) : from_folder(p, o));
  ISO_CHECK_OK(check_tensor_types(types, m.tensors));
  types.layers = m.layers, types.experts = m.experts, types.tied = m.tied;
  m.values.put("general.file_type", types.type->id);
  m.values.put("general.quantization_version", uint32_t{2});
  Lines lines(p);
  std::map<std::string, int64_t> remarks;
  for (Conversion& t : m.tensors) {
    const auto ignored = [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), t.as.name.c_str(), 0) == 0; };
    const bool stays = std::any_of(o.ignore.begin(), o.ignore.end(), ignored) && tensor::format(t.as.dtype).ggml_type >= 0;
    ISO_TRY(const weights::TypeChoice choice, stays ? Result<weights::TypeChoice>(weights::TypeChoice{t.as.dtype, "--ignore"})
                                                    : weights::type_of(types, t.as.name, t.as.shape, t.as.dtype));
    t.as.dtype = choice.dtype;
    ISO_CHECK_OK(refuse_requantizing(o, t));
    if (!choice.why.empty()) remarks[fmt::format("{} ({})", tensor::format(choice.dtype).name, choice.why)] += 1;
    int64_t before = t.values.empty() ? 0 : int64_t(t.as.bytes());
    for (const weights::SourceRows& s : t.from) before += int64_t(tensor::row_bytes(s.tensor->dtype, t.as.shape.back())) * s.rows;
    lines.add(t.as.name, t.as.shape.size(), product(t.as.shape), before, int64_t(t.as.bytes()), tensor::format(t.as.dtype).name);
  }
  for (const auto& [what, n] : remarks) p.remarks.push_back(fmt::format("{} tensor{} in {}", n, n == 1 ? "" : "s", what));
  tell_idle_exclusions(o, p, m.tensors, [](const std::string& s, const Conversion& t) { return ::fnmatch(s.c_str(), t.as.name.c_str(), 0) == 0; });
  p.values = std::move(m.values), p.conversions = std::move(m.tensors);
  return {};
}

Result<void> plan_safetensors(const QuantizeOptions& o, QuantizePlan& p) {
  const std::string type = o.type.empty() ? "fp8" : o.type;
  p.scheme = weights::scheme_by_name(type);
  if (!p.scheme)
    return fail(Code::invalid_argument, fmt::format("'{}' is no type of safetensors folders", type), "--type",
                (weights::file_type_by_name(type) ? "end OUT in .gguf for it, or choose one of " : "choose one of ") + weights::scheme_names());
  if (p.files->container() == "gguf")
    return fail(Code::unsupported, "a GGUF file cannot become safetensors", o.model,
                "start from the Hugging Face folder, or write a GGUF file (OUT ending in .gguf)");
  for (const std::string& s : o.ignore) ISO_CHECK_OK(weights::check_pattern(s, "--ignore"));
  p.type = p.scheme->name, p.nominal_bits = p.scheme->bits;
  Lines lines(p);
  int64_t odd = 0, plain = 0;
  for (const TensorEntry& e : p.files->tensors()) {
    if (tensor::format(e.dtype).safetensors.empty())
      return fail(Code::invalid_argument, fmt::format("tensor {} is quantized already", e.name), o.model, "start from the unquantized model");
    const bool ignored = std::any_of(o.ignore.begin(), o.ignore.end(), [&](const std::string& s) { return weights::names_module(s, e.name); });
    const bool wanted = !ignored && e.rank == 2 && weights::eligible(e, *p.files), good = wanted && weights::fits(*p.scheme, e.shape[1]);
    odd += wanted && !good, plain += ignored;
    p.choices.push_back({&e, good ? p.scheme : nullptr});
    int64_t after = 0;
    for (const auto& part : weights::parts_in_file(p.choices.back())) after += int64_t(part.view.bytes);
    const std::span shape(e.shape.data(), size_t(e.rank));
    lines.add(e.name, size_t(e.rank), product(shape), int64_t(e.bytes), after, good ? p.scheme->name : tensor::format(e.dtype).name);
  }
  if (odd)
    p.remarks.push_back(
        fmt::format("{} matrices stay as they are: their rows do not fill groups of {}", odd, p.scheme->columns ? p.scheme->columns : 32));
  tell_idle_exclusions(o, p, p.files->tensors(), [](const std::string& s, const TensorEntry& e) { return weights::names_module(s, e.name); });
  if (plain) p.remarks.push_back(fmt::format("{} tensors stay as they are: --ignore", plain));
  return {};
}

std::string types_text(const PlanLine& l) {
  std::vector<std::pair<std::string, int64_t>> sorted(l.types.begin(), l.types.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out;
  for (const auto& [name, n] : sorted)
    out += (out.empty() ? "" : ", ") + (sorted.size() == 1 ? name : fmt::format("{} {:.0f} %", name, 100.0 * double(n) / double(l.parameters)));
  return out;
}

double bits(int64_t bytes, int64_t parameters) { return parameters ? 8.0 * double(bytes) / double(parameters) : 0; }

}  // namespace

Result<QuantizePlan> plan_quantize(const QuantizeOptions& o, const levers::Levers& levers, const std::string& path) {
  ISO_CHECK_OK(check_container(o));
  QuantizePlan p;
  p.path = path;
  ISO_TRY(p.files, weights::open_checkpoint(path, levers.loading()));
  ISO_CHECK_OK(o.gguf() ? plan_gguf(o, p) : plan_safetensors(o, p));
  return p;
}

std::string describe(const QuantizePlan& p) {
  std::string out =
      fmt::format("{} to {}\n  {:<24}{:>9}{:>14}{:>12}{:>12}   {}\n", p.path, p.type, "kind", "tensors", "parameters", "before", "after", "format");
  for (const PlanLine& l : p.lines)
    out += fmt::format("  {:<24}{:>9}{:>14}{:>12}{:>12}   {}\n", l.kind, l.tensors, l.parameters, bytes_text(double(l.before)),
                       bytes_text(double(l.after)), types_text(l));
  out += fmt::format("  {:<24}{:>9}{:>14}{:>12}{:>12}\n", "all", "", p.parameters, bytes_text(double(p.before)), bytes_text(double(p.after)));
  out += fmt::format("  bits a weight: {:.2f} before, {:.2f} after; {} alone has {:.2f}\n", bits(p.before, p.parameters),
                     bits(p.after, p.parameters), p.type, p.nominal_bits);
  out += fmt::format("  memory: {} to convert, about {} to run, plus the KV cache\n", bytes_text(double(p.working)), bytes_text(double(p.after)));
  for (const std::string& r : p.remarks) out += fmt::format("  {}\n", r);
  return out;
}

}  // namespace isotope::app
