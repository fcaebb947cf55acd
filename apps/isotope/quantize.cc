// isotope quantize: a model in a smaller format, as a GGUF file or a Hugging Face folder.
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "base/topology.h"
#include "bench_load.h"
#include "commands.h"
#include "interrupt.h"
#include "load.h"
#include "model_path.h"
#include "output.h"
#include "quantize_plan.h"
#include "usage.h"
#include "weights/eligible.h"
#include "weights/json.h"
#include "weights/metadata.h"

namespace isotope::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Refuses before hours of work what cannot end well.
Result<void> check_place(const QuantizeOptions& o, const QuantizePlan& p) {
  std::error_code ec;
  for (const std::string& f : p.files->files())
    if (fs::equivalent(f, o.out, ec)) return fail(Code::invalid_argument, "OUT is a file of the model itself", o.out, "name another file");
  if (o.gguf() && !o.force && fs::is_regular_file(o.out, ec))
    return fail(Code::invalid_argument, "'" + o.out + "' exists already", "OUT", "name another file, or say --force to replace it");
  if (!o.gguf() && fs::exists(o.out, ec) && (!fs::is_directory(o.out, ec) || !fs::is_empty(o.out, ec)))
    return fail(Code::invalid_argument, "'" + o.out + "' exists already", "OUT",
                "name a folder that does not exist, or an empty one; GGUF files end in .gguf");
  fs::path parent = fs::path(o.out).parent_path();
  if (parent.empty()) parent = ".";
  if (o.gguf())
    ISO_CHECK_OK(base::OutputFile::check(o.out, "OUT"));
  else if (!fs::is_directory(parent, ec))
    return fail(Code::invalid_argument, "there is no folder '" + parent.string() + "'", "OUT", "create it first");
  struct statvfs room {};
  if ((fs::is_regular_file(o.out, ec) || !fs::exists(o.out, ec)) && statvfs(parent.c_str(), &room) == 0) {
    const uint64_t free = uint64_t(room.f_bavail) * room.f_frsize;
    if (free < uint64_t(p.after))
      return fail(Code::resource_exhausted, fmt::format("{} are needed, {} are free there", bytes_text(double(p.after)), bytes_text(double(free))),
                  o.out, "free space, or name a place on another disk");
  }
  return {};
}

std::string bar(int64_t done, int64_t total) {
  constexpr int64_t kWidth = 30;
  const int64_t full = total ? done * kWidth / total : kWidth;
  return fmt::format("quantizing [{}{}] {:3} %", std::string(size_t(full), '#'), std::string(size_t(kWidth - full), '.'),
                     total ? done * 100 / total : 100);
}

// ---- what belongs to a Hugging Face folder besides its weights ----------------------------------------------------------------

ordered_json weights_json(const weights::Scheme& s) {
  const bool floats = s.layout == weights::Layout::floats8 || s.layout == weights::Layout::fp4;
  ordered_json w = {{"num_bits", s.bits}, {"type", floats ? "float" : "int"}, {"symmetric", true}, {"dynamic", false}, {"observer", "minmax"}};
  w["strategy"] = s.rows > 1 ? "block" : s.columns ? "group" : "channel";
  w["group_size"] = s.rows == 1 && s.columns ? ordered_json(s.columns) : ordered_json();
  if (s.rows > 1) w["block_structure"] = {s.rows, s.columns};
  return w;
}

/// What reads such files multiplies with: activations in 8 bits where the weights are, quantized as they come.
ordered_json activations_json(const weights::Scheme& s) {
  if (s.layout != weights::Layout::floats8 && s.layout != weights::Layout::bytes) return nullptr;
  ordered_json a = {{"num_bits", 8}, {"type", s.layout == weights::Layout::bytes ? "int" : "float"}, {"symmetric", true}, {"dynamic", true}};
  a["strategy"] = s.rows > 1 ? "group" : "token";
  a["group_size"] = s.rows > 1 ? ordered_json(s.columns) : ordered_json();
  return a;
}

ordered_json quantization_config(const QuantizePlan& p) {
  constexpr const char* kFormats[] = {"float-quantized", "int-quantized", "pack-quantized", "", "", "mxfp4-pack-quantized"};
  const char* format = kFormats[size_t(p.scheme->layout)];
  std::vector<std::string> ignore;
  for (const weights::SchemeChoice& c : p.choices)
    if (!c.scheme && c.tensor->rank == 2 && c.tensor->name.ends_with(".weight") && c.tensor->name.find("embed") == std::string::npos &&
        c.tensor->name.find("norm") == std::string::npos)
      ignore.emplace_back(weights::module_of(c.tensor->name));
  if (std::find(ignore.begin(), ignore.end(), "lm_head") == ignore.end()) ignore.insert(ignore.begin(), "lm_head");  // tied heads have no tensor
  ordered_json group = {{"targets", {"Linear"}},
                        {"weights", weights_json(*p.scheme)},
                        {"input_activations", activations_json(*p.scheme)},
                        {"output_activations", nullptr}};
  group["format"] = format;
  return {{"quant_method", "compressed-tensors"}, {"format", format}, {"quantization_status", "compressed"},  {"global_compression_ratio", nullptr},
          {"kv_cache_scheme", nullptr},           {"ignore", ignore}, {"config_groups", {{"group_0", group}}}};
}

/// config.json as it was, with what was done; everything else but weights is copied.
Result<void> write_side_files(const QuantizePlan& p, const fs::path& from, const fs::path& to) {
  ISO_TRY(const std::string text, base::read_text_file((from / "config.json").string(), uint64_t{16} << 20));
  ordered_json config = ordered_json::parse(text, nullptr, false);
  if (!config.is_object()) {  // Python writes Infinity (Nemotron-H), which the standard does not know
    if (const auto loose = weights::parse_json(text, "config.json")) config = *loose;
  }
  if (!config.is_object())
    return fail(Code::data_loss, "config.json is no JSON object that can be written again", from.string(),
                "use the file that was published with the model");
  config["quantization_config"] = quantization_config(p);
  ISO_CHECK_OK(base::write_output((to / "config.json").string(), config.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n", "OUT"));
  std::error_code ec;
  for (const auto& e : fs::directory_iterator(from, ec)) {
    const std::string name = e.path().filename().string();
    const bool weights = name.ends_with(".safetensors") || name.ends_with(".index.json") || name.ends_with(".bin") || name.ends_with(".pth") ||
                         name.ends_with(".pt") || name.ends_with(".gguf");
    if (weights || name == "config.json" || name.starts_with(".") || !e.is_regular_file(ec)) continue;
    fs::copy_file(e.path(), to / name, ec);
    if (ec) return fail(Code::unavailable, "cannot copy '" + name + "': " + ec.message(), to.string(), "check the folder and its free space");
  }
  const fs::path templates = from / "additional_chat_templates";
  if (fs::is_directory(templates, ec)) fs::copy(templates, to / templates.filename(), fs::copy_options::recursive, ec);
  return {};
}

/// A folder that appears under its name when it is whole.
Result<void> write_folder(const QuantizeOptions& o, const QuantizePlan& p, const weights::ConvertOptions& c) {
  fs::path out = fs::path(o.out);
  if (!out.has_filename()) out = out.parent_path();
  const fs::path part = out.string() + ".part-" + std::to_string(::getpid());
  std::error_code ec;
  const auto failed = [&](const char* what) {
    return fail(Code::unavailable, std::string(what) + ": " + ec.message(), part.string(), "check the folder and its free space");
  };
  if (!fs::create_directory(part, ec)) return failed("the folder cannot be made");
  const auto all = [&]() -> Result<void> {
    ISO_CHECK_OK(write_side_files(p, p.path, part));
    ISO_CHECK_OK(weights::write_safetensors_folder(*p.files, p.choices, part.string(), int64_t(o.shard_gb * 1e9), c));
    if (fs::exists(out, ec)) fs::remove(out, ec);  // empty: check_place()
    fs::rename(part, out, ec);
    if (ec) return failed("the folder cannot be renamed");
    return {};
  };
  auto done = all();
  if (!done) fs::remove_all(part, ec);
  return done;
}

Result<void> quantize(const QuantizeOptions& o, const Context& context, const Interrupt& interrupt) {
  ISO_TRY(const levers::Levers levers, resolve_levers(context));
  ISO_TRY(const std::string path, model_path(o.model, context.environment));
  ISO_TRY(const QuantizePlan p, plan_quantize(o, levers, path));
  out_now(describe(p));
  if (o.dry_run) return {};
  ISO_CHECK_OK(check_place(o, p));
  const int threads = thread_count(o.threads, levers);
  weights::ConvertOptions c{.threads = threads > 0 ? threads : base::machine().default_threads()};
  c.progress = [](int64_t done, int64_t total) { show_progress(bar(done, total)); };
  c.stop = [&] { return interrupt.pressed(); };
  Result<void> done;
  if (o.gguf()) {
    ISO_TRY(base::OutputFile file, base::OutputFile::create(o.out, "OUT"));
    done = weights::write_gguf(*p.files, p.values, p.conversions, std::move(file), c);
  } else {
    done = write_folder(o, p, c);
  }
  show_progress("");
  ISO_CHECK_OK(done);
  print("wrote {}\n", o.out);
  return {};
}

int run(const QuantizeOptions& o, const Context& context) {
  const Interrupt interrupt(true);
  const auto done = quantize(o, context, interrupt);
  if (done) return 0;
  const int status = report(done.error());
  return done.error().code == Code::cancelled ? interrupt.status() : status;
}

}  // namespace

void add_quantize(CLI::App& app, Context& context) {
  auto o = std::make_shared<QuantizeOptions>();
  CLI::App* sub = app.add_subcommand("quantize", "write a model in a smaller format: a GGUF file, or a Hugging Face folder of safetensors");
  sub->add_option("model", o->model, "GGUF file, Hugging Face folder or built-in name")->required();
  sub->add_option("out", o->out, "FILE.gguf, or a new folder for safetensors")->required();
  sub->add_option("type,--type", o->type,
                  "GGUF: " + weights::file_type_names() + " (default Q4_K_M); safetensors: " + weights::scheme_names() + " (default fp8)");
  sub->add_flag("--dry-run", o->dry_run, "only say what would be done");
  sub->add_option("--tensor-type", o->tensor_types, "GGUF: PATTERN=TYPE for tensors by name (repeatable)")->allow_extra_args(false);
  sub->add_option("--output-tensor-type", o->output_type, "GGUF: type of output.weight");
  sub->add_option("--token-embedding-type", o->embedding_type, "GGUF: type of token_embd.weight");
  sub->add_option("--ignore", o->ignore, "pattern of tensors or modules that stay as they are (repeatable)")->allow_extra_args(false);
  sub->add_flag("--pure", o->pure, "GGUF: every matrix in the same type, no mixture");
  sub->add_flag("--allow-requantize", o->allow_requantize, "take matrices that are quantized already");
  sub->add_flag("--force", o->force, "GGUF: replace OUT if it exists");
  sub->add_option("--pre", o->pre, "GGUF from a folder: name of the pre-tokenizer, where it is not recognised");
  sub->add_option("--shard-gb", o->shard_gb, "safetensors: largest file in GB")->check(CLI::Range(0.001, 1e6))->capture_default_str();
  sub->add_option("--threads,-t", o->threads, "0 = one for each physical core")->check(CLI::Range(0, 4096))->capture_default_str();
  sub->callback([o, &context] { context.run = [o, &context] { return run(*o, context); }; });
}

}  // namespace isotope::app
