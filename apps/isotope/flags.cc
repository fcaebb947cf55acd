#include "flags.h"

#include <algorithm>

#include "foreign_flags.h"
#include "text/token_texts.h"
#include "usage.h"

namespace isotope::app {

std::string spellings(const std::string& name, const std::string& more) {
  std::string hyphens = name, underscores = name;
  std::replace(hyphens.begin(), hyphens.end(), '_', '-');
  std::replace(underscores.begin(), underscores.end(), '-', '_');
  std::string out = "--" + hyphens;
  if (underscores != hyphens) out += ",--" + underscores;
  return more.empty() ? out : out + "," + more;
}

// As the engine and the KV cache have it.
const CLI::Validator kBlockSize(
    [](std::string& text) {
      static const CLI::IsMember known({"16", "32", "64", "128", "256", "512", "1024", "2048", "4096"});
      return known(text).empty() ? std::string() : "'" + text + "' is not a power of two from 16 to 4096";
    },
    "INT of 16 to 4096");

void EngineFlags::add(CLI::App& app) {
  EngineOptions& o = options;
  app.add_option(spellings("precision"), precision, "fast, or exact: float32 activations, weights and KV cache")
      ->check(CLI::IsMember({"fast", "exact"}))->capture_default_str();
  app.add_option(spellings("kv-cache-dtype", "--kv-type"), kv_type, "auto, f32, f16, bf16, int8 or fp8")
      ->check(CLI::IsMember({"auto", "f32", "f16", "bf16", "int8", "fp8", "fp8_e4m3"}))->capture_default_str();
  app.add_option(spellings("threads", "-t"), o.threads, "compute threads; 0 = one for each physical core")->check(CLI::Range(0, 4096))->capture_default_str();
  app.add_option(spellings("max-model-len", "-c,--ctx-size"), o.max_model_len, "longest sequence; 0 = the model's own, cut to what fits")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))->capture_default_str();
  app.add_option(spellings("kv-cache-memory-bytes"), o.kv_bytes, "memory for the KV cache; 0 = a share of what is free")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 50))->capture_default_str();
  app.add_option(spellings("gpu-memory-utilization"), o.memory_fraction, "that share: of the free memory, weights and cache together")
      ->check(CLI::Range(0.01, 1.0))->capture_default_str();
  app.add_option(spellings("block-size"), o.block_size, "tokens of a KV block: a power of two")->check(kBlockSize)->capture_default_str();
  app.add_option(spellings("pooling"), pooling, "how embeddings are made of a text's tokens: mean, cls, last or max; default: what the model's files say")
      ->check(CLI::IsMember({"mean", "cls", "last", "max"}));
  app.add_option(spellings("embd-normalize"), embd_normalize, "2: embeddings have length 1; -1: they stay as they are; default: what the model's files say")
      ->check(CLI::IsMember({-1, 2}));
  app.add_option(spellings("isa"), o.isa, "force an instruction set; `isotope doctor` lists them");
  app.add_option(spellings("online-quant-config"), o.online_quant_config, "JSON object: to which formats linear layers are quantized while they load");
  app.add_flag("!--no-mtp,!--no_mtp,!--no-nextn", o.keep_mtp, "leave out multi-token-prediction heads: drafters need them, and they take memory");
  app.add_option(spellings("load-dummy"), load_dummy, "weights out of nothing, shaped by config.json alone: zero, empty (the same; without a value too), xavier, or none")
      ->check(CLI::IsMember({"none", "zero", "empty", "xavier", "true"}))->expected(0, 1)->default_str("empty")  // when it stands alone
      ->option_text("[none|zero|empty|xavier]");
  app.add_option(spellings("hf-overrides"), hf_overrides, "JSON object of model settings that replace those of config.json");
}

Result<EngineOptions> EngineFlags::resolve(const std::string& model_path, const levers::Levers& levers) const {
  static const std::map<std::string, KvType> kKvTypes = {{"f32", KvType::f32},   {"f16", KvType::f16}, {"bf16", KvType::bf16},
                                                         {"int8", KvType::int8}, {"fp8", KvType::fp8}, {"fp8_e4m3", KvType::fp8}};
  EngineOptions o = options;
  o.model = model_path;
  o.token_texts = text::read_token_texts;
  if (load_dummy != "none") o.load_dummy = load_dummy == "true" ? "empty" : load_dummy;
  if (o.online_quant_config == "{}") o.online_quant_config.clear();
  o.precision = precision == "exact" ? Precision::exact : Precision::fast;
  static const std::map<std::string, Pooling> kPoolings = {{"mean", Pooling::mean}, {"cls", Pooling::cls}, {"last", Pooling::last}, {"max", Pooling::max}};
  if (!pooling.empty()) o.pooling = kPoolings.at(pooling);
  if (embd_normalize != 0) o.normalize = embd_normalize == 2;
  if (kv_type != "auto") o.kv_type = kKvTypes.at(kv_type);
  o.threads = thread_count(o.threads, levers);
  if (o.isa.empty()) o.isa = levers.cpu().isa;
  if (hf_overrides.empty()) return o;
  const auto json = serve::parse_json(hf_overrides);
  if (!json || !json->is_object()) return fail(Code::invalid_argument, "'" + serve::shortened(hf_overrides) + "' is no JSON object", "--hf-overrides");
  for (const auto& [key, value] : json->items()) o.hf_overrides[key] = value.is_string() ? value.get<std::string>() : serve::dump(value);
  return o;
}

std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> out(argv + std::min(argc, 1), argv + argc);
  // The subcommand is the first word that belongs to no flag of the program itself.
  size_t command = 0;
  while (command < out.size() && out[command].starts_with('-')) command += out[command] == "--set" || out[command] == "--config" ? 2 : 1;
  if (command < out.size() && out[command] == "serve") out = written_out(out);
  if (command < out.size() && out[command] == "bench") std::replace(out.begin(), out.end(), std::string("-npl"), std::string("--npl"));
  std::reverse(out.begin(), out.end());
  return out;
}

serve::Json flags_json(const CLI::App& app) {
  serve::Json out = serve::Json::array();
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name(false, true);
    if (option->get_lnames().empty() || option->get_lnames().front() == "help") continue;
    const bool given = option->count() > 0;
    if (option->get_group().empty() && !given) continue;  // flags of other engines, test aids
    std::string value = option->get_lnames().front() == "load-dummy" ? "none" : option->get_default_str();  // the parser keeps there what the flag alone means
    if (given) {
      value.clear();
      for (const std::string& v : option->results()) value += (value.empty() ? "" : ",") + v;
    }
    if (name.find("api-key") != std::string::npos && given) value = "(hidden)";
    out.push_back({{"name", "--" + option->get_lnames().front()}, {"value", value}, {"source", given ? "command line" : "default"}});
  }
  return out;
}

}  // namespace isotope::app
