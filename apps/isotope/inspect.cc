// isotope inspect: what a model's files hold, without loading the weights.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <nlohmann/json.hpp>

#include "bench_load.h"
#include "commands.h"
#include "engine/kv_costs.h"
#include "load.h"
#include "model_path.h"
#include "models/arch.h"
#include "models/config.h"
#include "models/dummy.h"
#include "models/encoder.h"
#include "output.h"
#include "weights/check_values.h"
#include "weights/checkpoint.h"
#include "weights/metadata.h"
#include "weights/summary.h"

namespace isotope::app {
namespace {

using nlohmann::ordered_json;
using weights::Checkpoint;

constexpr int64_t kContexts[] = {2048, 8192, 32768};

struct Options {
  std::string model;
  bool json = false, tensors = false, check = false;
};

struct ContextMemory {
  int64_t context = 0, kv_bytes = 0;
};

/// What sequences take, as an engine with its usual blocks and bf16 would count.
struct SequenceMemory {
  engine::KvCosts costs;
  int64_t block_size = EngineOptions().block_size;
  int64_t kv_bytes(int64_t context) const {
    int64_t bytes = 0;
    for (const engine::KvGroupCost& g : costs.groups) {
      const int64_t tokens = g.window > 0 ? std::min(g.window, context) : context;
      bytes += (tokens + block_size - 1) / block_size * int64_t(g.block_bytes);
    }
    return bytes;
  }
};

Result<SequenceMemory> sequence_memory(const models::ModelConfig& c) {
  const models::Arch* const arch = models::arch_by_name(c.arch);
  if (!arch) return SequenceMemory{};
  const auto model = arch->make();
  model->set_config(c);
  ISO_TRY(const auto ops, ops::make_cpu_ops({.threads = 1, .pin = false}));
  SequenceMemory m;
  m.costs = engine::kv_costs(*model, *ops, int(m.block_size), KvType::bf16);
  return m;
}

struct Report {
  std::string path, name, architecture;
  std::unique_ptr<Checkpoint> files;
  weights::Summary weights;
  std::optional<models::EncoderConfig> encoder;
  Result<models::ModelConfig> config = fail(Code::internal, "");  ///< an architecture that cannot run can still be inspected
  std::vector<ContextMemory> memory;
  int64_t state_bytes = 0;  ///< recurrent state of a sequence, however long it is
  bool config_only = false;  ///< no weights: tensors and sizes are those that the configuration asks for
  std::optional<weights::ValueReport> values;
};

/// A config.json, or a folder that holds one and no weights.
bool is_config_only(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ec;
  if (!fs::is_directory(path, ec)) return fs::path(path).extension() == ".json";
  if (!fs::exists(fs::path(path) / "config.json", ec)) return false;
  for (fs::directory_iterator it(path, ec), end; !ec && it != end; it.increment(ec))
    for (const char* weights : {".safetensors", ".gguf", ".bin", ".pth", ".pt"})
      if (it->path().extension() == weights || it->path().filename() == "model.safetensors.index.json") return false;
  return !ec;
}

Result<std::unique_ptr<Checkpoint>> open_files(const std::string& path, bool config_only, const levers::Loading& levers) {
  if (!config_only) return weights::open_checkpoint(path, levers);
  if (auto planned = models::planned_checkpoint(path)) return planned;
  return models::config_checkpoint(path);  // what kept the plan from being made is told with the rest
}

Result<Report> inspect(const Options& o, const Context& context) {
  Report r;
  ISO_TRY(const levers::Levers levers, resolve_levers(context));
  ISO_TRY(r.path, model_path(o.model, context.environment));
  r.config_only = is_config_only(r.path);
  if (r.config_only && o.check)
    return fail(Code::invalid_argument, "there are no weights to check beside the config.json", r.path,
                "leave out --check-tensors, or give the model's files");
  ISO_TRY(r.files, open_files(r.path, r.config_only, levers.loading()));
  const weights::Metadata& m = r.files->metadata();
  const bool gguf = r.files->container() == "gguf";
  r.name = m.text(gguf ? "general.name" : "_name_or_path");
  if (gguf)
    r.architecture = m.text("general.architecture");
  else if (const auto list = m.strings("architectures"); list && !list->empty())
    r.architecture = (*list)[0];
  r.weights = weights::summarize(*r.files);
  if (o.check) {
    const auto checked = weights::check_values(*r.files, levers.loading(), [](const LoadProgress& p) {
      show_progress(progress_text({"checking", p.done, p.total}));
    });
    show_progress("");
    if (!checked) return tl::unexpected(checked.error());
    r.values = *checked;
  }
  if (models::is_encoder(*r.files)) {
    if (auto e = models::parse_encoder_config(*r.files))
      r.encoder = *std::move(e);
    else
      r.config = tl::unexpected(e.error());
    return r;
  }
  r.config = models::parse_config(*r.files);
  if (!r.config) return r;
  std::vector<int64_t> contexts(std::begin(kContexts), std::end(kContexts));
  std::erase_if(contexts, [&](int64_t n) { return n >= r.config->context_length; });
  contexts.push_back(r.config->context_length);
  ISO_TRY(const SequenceMemory sequence, sequence_memory(*r.config));
  r.state_bytes = int64_t(sequence.costs.state_bytes);
  for (int64_t n : contexts) r.memory.push_back({n, sequence.kv_bytes(n)});
  return r;
}

// ---- for people ----

std::string size_text(int64_t bytes) {
  const double b = double(bytes);
  if (b >= 0x1p30) return fmt::format("{:.2f} GiB", b / 0x1p30);
  if (b >= 0x1p20) return fmt::format("{:.1f} MiB", b / 0x1p20);
  return fmt::format("{:.1f} KiB", b / 0x1p10);
}

std::string count_text(int64_t n) {
  if (n >= 1'000'000'000) return fmt::format("{:.2f} B", double(n) / 1e9);
  if (n >= 1'000'000) return fmt::format("{:.1f} M", double(n) / 1e6);
  return fmt::format("{:.1f} K", double(n) / 1e3);
}

std::string shape_text(const weights::TensorEntry& t) {
  std::string s;
  for (int i = 0; i < t.rank; ++i) s += (i ? std::string(" x ") : std::string()) + std::to_string(t.shape[size_t(i)]);
  return s;
}

void print_encoder(const models::EncoderConfig& e) {
  print("  encoder     {} layers of {}, {} heads of {}, ffn {}, vocabulary {}, {} positions; `isotope serve` makes {} of texts\n",
        e.layers, e.hidden, e.heads, e.head_dim, e.ffn, e.vocab, e.context_length,
        e.labels ? fmt::format("{} scores", e.labels) : "vectors");
}

void print_head(const Report& r) {
  if (r.config_only && r.weights.types.empty()) print("{}  ({}, config.json alone)\n", r.name.empty() ? r.path : r.name, r.architecture);
  else print("{}  ({}, {}, {})\n", r.name.empty() ? r.path : r.name, r.architecture, r.weights.file_type, r.config_only ? "config.json alone" : r.files->container());
  for (const std::string& f : r.files->files()) print("  file        {}\n", f);
  if (!r.weights.types.empty()) {
    print("  parameters  {}{}\n", count_text(r.weights.parameters), r.config_only ? ", as the configuration has it; there are no weights" : "");
    print("  weights     {}, {:.2f} bits a weight ({} alone has {:.2f})\n", size_text(r.weights.bytes), r.weights.bits,
               r.weights.file_type, r.weights.nominal_bits);
  }
  if (!r.config) {
    if (r.encoder) print_encoder(*r.encoder);
    else print("  cannot run: {}\n", r.config.error().message());
    return;
  }
  const models::ModelConfig& c = *r.config;
  print(
      "  model       {} layers of {}, {} heads ({} for keys and values) of {}, ffn {}, vocabulary {}, trained context {}\n",
      c.layers, c.hidden, c.heads, c.kv_heads, c.head_dim, c.ffn, c.vocab, c.context_length);
  if (c.draft_heads) print("  heads       {} for multi-token prediction\n", c.draft_heads);
}

void print_types(const Report& r) {
  if (r.weights.types.empty()) return;
  print("\nTensors by type\n  {:<10}{:>8}{:>14}{:>14}{:>14}\n", "type", "tensors", "parameters", "bytes", "bits/weight");
  for (const weights::TypeTotals& t : r.weights.types)
    print("  {:<10}{:>8}{:>14}{:>14}{:>14.4g}\n", tensor::format(t.dtype).name, t.tensors, count_text(t.elements),
               size_text(t.bytes), weights::format_bits(t.dtype));
}

void print_memory(const Report& r) {
  if (r.memory.empty()) return;
  if (r.state_bytes) print("\nRecurrent state: {} a sequence, however long it is\n", size_text(r.state_bytes));
  print("\nMemory for one sequence (KV cache in bf16)\n  {:>10}{:>14}{:>14}\n", "context", "KV cache", "with weights");
  for (const ContextMemory& m : r.memory)
    print("  {:>10}{:>14}{:>14}\n", m.context, size_text(m.kv_bytes), size_text(m.kv_bytes + r.state_bytes + r.weights.bytes));
}

void print_metadata(const Report& r) {
  const weights::Metadata& m = r.files->metadata();
  print("\nMetadata\n");
  for (const std::string& k : m.keys())
    if (!k.starts_with("tokenizer.chat_template")) print("  {:<44} {:<16} {}\n", k, m.type_name(k), m.text(k, 80));
  const VocabSource& v = r.files->vocab();
  if (!v.chat_template.empty()) print("\nChat template\n{}\n", v.chat_template);
  for (const auto& [name, text] : v.named_templates) print("\nChat template {}\n{}\n", name, text);
}

std::string bad_text(const weights::BadValues& b) {
  return fmt::format("{} NaN, {} infinite, the first at [{}]", b.nans, b.infinities, fmt::join(b.first, ", "));
}

void print_values(const Report& r) {
  print("\nValues that are no numbers\n");
  for (const weights::BadValues& b : r.values->bad) print("  {:<52} {:<8} {:<24} {}, in {}\n", b.tensor->name, tensor::format(b.tensor->dtype).name, shape_text(*b.tensor), bad_text(b),
                                                          r.files->files()[size_t(b.tensor->file)]);
  print("  {} of {} tensors, {} values looked at\n", r.values->bad.size(), r.values->tensors, r.values->values);
}

void print_tensors(const Report& r) {
  print("\nTensors\n");
  for (const weights::TensorEntry& t : r.files->tensors())
    print("  {:<52} {:<8} {:<24} {:>12}  at {} of file {}\n", t.name, tensor::format(t.dtype).name, shape_text(t),
               size_text(int64_t(t.bytes)), t.offset, t.file);
}

// ---- for programs ----

ordered_json metadata_json(const weights::Metadata& m) {
  if (m.tree()) return *m.tree();
  ordered_json out = ordered_json::object();
  for (const std::string& k : m.keys()) {
    if (m.is_array(k))
      out[k] = m.text(k, 4096);
    else if (const auto b = m.boolean(k))
      out[k] = *b;
    else if (const auto i = m.integer(k); i && m.type_name(k)[0] != 'f')
      out[k] = *i;
    else if (const auto n = m.number(k))
      out[k] = *n;
    else
      out[k] = m.text(k, size_t{1} << 20);
  }
  return out;
}

ordered_json config_json(const models::ModelConfig& c) {
  return {{"layers", c.layers},        {"hidden", c.hidden}, {"heads", c.heads},      {"kv_heads", c.kv_heads},
          {"head_dim", c.head_dim},    {"ffn", c.ffn},       {"vocabulary", c.vocab}, {"context_length", c.context_length},
          {"mtp_heads", c.draft_heads}};
}

ordered_json to_json(const Report& r, bool tensors) {
  ordered_json j = {{"path", r.path},
                    {"name", r.name},
                    {"architecture", r.architecture},
                    {"container", r.config_only ? "none" : r.files->container()},
                    {"files", r.files->files()},
                    {"file_type", r.weights.file_type},
                    {"parameters", r.weights.parameters},
                    {"weight_bytes", r.weights.bytes},
                    {"bits_per_weight", r.weights.bits},
                    {"nominal_bits_per_weight", r.weights.nominal_bits}};
  j["config"] = r.config ? config_json(*r.config) : ordered_json();
  if (!r.config) j["cannot_run"] = r.config.error().message();
  if (r.values) {
    ordered_json bad = ordered_json::array();
    for (const weights::BadValues& b : r.values->bad)
      bad.push_back({{"name", b.tensor->name},
                     {"file", r.files->files()[size_t(b.tensor->file)]},
                     {"nan", b.nans},
                     {"infinite", b.infinities},
                     {"first", b.first}});
    j["values"] = {{"tensors", r.values->tensors}, {"values", r.values->values}, {"bad", bad}};
  }
  j["tensors_by_type"] = ordered_json::array();
  for (const weights::TypeTotals& t : r.weights.types)
    j["tensors_by_type"].push_back({{"type", tensor::format(t.dtype).name},
                                    {"tensors", t.tensors},
                                    {"parameters", t.elements},
                                    {"bytes", t.bytes},
                                    {"bits_per_weight", weights::format_bits(t.dtype)}});
  j["memory"] = ordered_json::array();
  for (const ContextMemory& m : r.memory)
    j["memory"].push_back(
        {{"context", m.context}, {"kv_type", "bf16"}, {"kv_bytes", m.kv_bytes},
         {"state_bytes", r.state_bytes}, {"total_bytes", m.kv_bytes + r.state_bytes + r.weights.bytes}});
  j["metadata"] = metadata_json(r.files->metadata());
  j["chat_template"] = r.files->vocab().chat_template;
  j["named_templates"] = ordered_json::object();
  for (const auto& [name, text] : r.files->vocab().named_templates) j["named_templates"][name] = text;
  if (!tensors) return j;
  j["tensors"] = ordered_json::array();
  for (const weights::TensorEntry& t : r.files->tensors())
    j["tensors"].push_back({{"name", t.name},
                            {"type", tensor::format(t.dtype).name},
                            {"shape", std::vector<int64_t>(t.shape.begin(), t.shape.begin() + t.rank)},
                            {"bytes", t.bytes},
                            {"file", t.file},
                            {"offset", t.offset}});
  return j;
}

int status(const Report& r) {
  if (!r.values || r.values->bad.empty()) return 0;
  const weights::BadValues& b = r.values->bad[0];
  return report(
      {Code::data_loss,
       fmt::format("{} of {} tensors have values that are no numbers: {}", r.values->bad.size(), r.values->tensors, bad_text(b)),
       weights::place_of(*r.files, *b.tensor),
       "download the files again, or convert them anew from a source without such values"});
}

int run(const Options& o, const Context& context) {
  const auto r = inspect(o, context);
  if (!r) return report(r.error());
  if (o.json) {
    print("{}\n", to_json(*r, o.tensors).dump(2, ' ', false, ordered_json::error_handler_t::replace));
    return status(*r);
  }
  print_head(*r);
  print_types(*r);
  print_memory(*r);
  print_metadata(*r);
  if (o.tensors) print_tensors(*r);
  if (r->values) print_values(*r);
  return status(*r);
}

}  // namespace

void add_inspect(CLI::App& app, Context& context) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand(
      "inspect", "what a model's files hold: metadata, tensors by type, memory by context length, chat template");
  sub->add_option("model", o->model, "GGUF file, Hugging Face folder, a config.json alone, or built-in name")->required();
  sub->add_flag("--json", o->json, "as one JSON object");
  sub->add_flag("--tensors", o->tensors, "also list every tensor");
  sub->add_flag("--check-tensors,--check", o->check, "read all weights and name tensors with NaN or infinite values; exit status 1 if there are any");
  sub->callback([o, &context] { context.run = [o, &context] { return run(*o, context); }; });
}

}  // namespace isotope::app
