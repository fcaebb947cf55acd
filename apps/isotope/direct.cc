#include "direct.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/log.h"
#include "base/topology.h"
#include "engine/ops_options.h"
#include "flags.h"
#include "model_path.h"
#include "models/encoder.h"
#include "models/engram_vocab.h"
#include "models/glm_settings.h"
#include "text/token_texts.h"
#include "usage.h"
#include "weights/online.h"

namespace isotope::app {

void DirectFlags::add(CLI::App& app) {
  app.add_option("model", model, "GGUF file, Hugging Face folder or built-in name")->required();
  app.add_option("--precision", precision, "exact: float32 throughout")->check(CLI::IsMember({"exact", "fast"}));
  app.add_option("--threads,-t", threads, "0 = one a physical core")->check(CLI::Range(0, 4096));
  app.add_option(spellings("online-quant-config"), online_quant_config, "JSON object: to which formats linear layers are quantized while they load");
  app.add_option("--isa", isa, "force an instruction set; `isotope doctor` lists them");
}

Result<void> refuse_encoder(const weights::Checkpoint& files, const std::string& path) {
  if (!models::is_encoder(files)) return {};
  std::filesystem::path p(path);
  if (!p.has_filename()) p = p.parent_path();
  return fail(Code::unsupported, "the model '" + p.stem().string() + "' is an encoder, which writes no text", "model",
              "serve it with `isotope serve` and use /v1/embeddings, or give a model that generates");
}

Result<void> DirectFiles::check_context(int64_t tokens, const std::string& what, const std::string& flags) const {
  if (tokens <= config.context_length) return {};
  if (!cut_by.empty())
    return fail(Code::invalid_argument, fmt::format("{}, with {} the model's context holds {}", what, cut_by, config.context_length), flags,
                "give fewer, or unset " + cut_by);
  return fail(Code::invalid_argument, fmt::format("{}, the model's context holds {}", what, config.context_length), flags, "give fewer");
}

Result<DirectFiles> open_direct(const DirectFlags& o, const levers::Levers& levers, const std::map<std::string, std::string>& environment, int64_t tokens) {
  ISO_TRY(const std::string path, model_path(o.model, environment));
  ISO_TRY(auto files, weights::open_checkpoint(path, levers.loading()));
  ISO_CHECK_OK(refuse_encoder(*files, path));
  if (!o.online_quant_config.empty()) {
    ISO_TRY(files, weights::quantize_online(std::move(files), o.online_quant_config));
  }
  ISO_TRY(models::ModelConfig config, models::parse_config(*files, {}, tokens));
  config.drop_heads("which this command does not run");
  std::string cut_by(models::apply_glm_settings(levers.sparse(), config));
  if (!cut_by.empty())
    base::log(base::LogLevel::warning, "{}: contexts are cut to the {} tokens that the indexer would choose", cut_by, config.context_length);
  return DirectFiles{std::move(files), std::move(config), std::move(cut_by)};
}

Result<DirectModel> load_direct(DirectFiles& f, const DirectFlags& o, const levers::Levers& levers) {
  ISO_CHECK_OK(models::resolve_engram(f.config.engram, f.config.vocab, f.files->vocab(), text::read_token_texts, levers.engram()));
  EngineOptions options;
  options.threads = thread_count(o.threads, levers);
  options.isa = o.isa;
  options.precision = o.exact() ? Precision::exact : Precision::fast;
  const engine::CoreShare share = engine::core_share(options, 0, base::machine().default_threads());
  DirectModel out;
  ISO_TRY(out.ops, ops::make_cpu_ops(engine::ops_options(options, levers, share)));
  ISO_TRY(out.model, models::load_model(*f.files, *out.ops, levers.loading(), f.config));
  return out;
}

}  // namespace isotope::app
