#include "load.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <future>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "models/dummy.h"
#include "weights/checkpoint.h"

namespace isotope::app {

namespace {

/// Makes the tokenizer of a model's files on a thread of its own, which takes a good part of the time that the weights of a small model take. Very large
/// vocabularies have to wait: a second copy of their strings would raise the peak of resident memory.
class EarlyTokenizer {
 public:
  EarlyTokenizer(const EngineOptions& options, const levers::Levers& levers) {
    if (!options.load_dummy.empty()) return;  // its vocabulary is not the files'
    try {
      made_ = std::async(std::launch::async, [path = options.model, &levers]() -> std::unique_ptr<text::Tokenizer> {
        auto out = make(path, levers.loading());
        malloc_trim(0);  // this thread's own heap would keep the vocabulary's strings resident
        return out;
      });
    } catch (const std::system_error&) {  // no thread to be had
    }
  }
  /// Null if there is none: whoever makes it then learns why.
  std::unique_ptr<text::Tokenizer> take() { return made_.valid() ? made_.get() : nullptr; }

 private:
  static std::unique_ptr<text::Tokenizer> make(const std::string& path, const levers::Loading& levers) try {
    const auto files = weights::open_checkpoint(path, levers);
    if (!files || (*files)->vocab().tokens.size() > kMostTokens || (*files)->vocab().tokenizer_json.size() > kMostJson) return nullptr;
    auto tokenizer = text::Tokenizer::create((*files)->vocab());
    return tokenizer ? *std::move(tokenizer) : nullptr;
  } catch (const std::exception&) {
    return nullptr;
  }

  static constexpr size_t kMostTokens = 1 << 17, kMostJson = 16 << 20;
  std::future<std::unique_ptr<text::Tokenizer>> made_;
};

/// Weights may take minutes to load: what is bound to end without a tokenizer ends before.
Result<void> check_tokenizer(const EngineOptions& o) {
  namespace fs = std::filesystem;
  std::error_code ec;
  if (!o.load_dummy.empty()) {
    ISO_TRY(const auto config, models::config_checkpoint(o.model));
    auto made = text::Tokenizer::create(config->vocab());
    if (made) return {};
    if (made.error().code == Code::not_found) made.error().remedy = "put a tokenizer.json beside config.json; `isotope bench --load-dummy` needs none";
    return tl::unexpected(made.error());
  }
  if (!fs::is_directory(o.model, ec) || fs::exists(fs::path(o.model) / "tokenizer.json", ec)) return {};
  const auto is_gguf = [](const fs::directory_entry& e) { return e.path().extension() == ".gguf"; };
  const fs::directory_iterator files(o.model, ec);
  if (ec || std::any_of(begin(files), end(files), is_gguf)) return {};
  ISO_TRY(const auto checkpoint, weights::open_checkpoint(o.model, {}));  // what else is wrong is told first
  auto made = text::Tokenizer::create(checkpoint->vocab());
  return made ? Result<void>() : tl::unexpected(made.error());
}

}  // namespace

Result<Loaded> load_model(const EngineOptions& options, const levers::Levers& levers, serve::FrontendOptions front,
                          const std::function<void(const LoadProgress&)>& progress) {
  Loaded out;
  ISO_CHECK_OK(check_tokenizer(options));
  EarlyTokenizer early(options, levers);
  ISO_TRY(out.engine, Engine::open(options, levers, progress));
  auto tokenizer = early.take();
  if (!tokenizer) {
    ISO_TRY(tokenizer, text::Tokenizer::create(out.engine->vocab()));
  }
  ISO_TRY(out.front, serve::Frontend::create(*out.engine, std::move(tokenizer), std::move(front)));
  for (const std::string& w : out.front->warnings()) base::log(base::LogLevel::warning, "{}", w);
  return out;
}

std::string progress_text(const LoadProgress& p) {
  if (p.total <= 0) return p.phase;
  return fmt::format("{} {} %", p.phase, std::min<int64_t>(100, p.done * 100 / p.total));
}

std::string bytes_text(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) bytes /= 1024, ++unit;
  return fmt::format("{:.{}f} {}", bytes, bytes < 10 && unit > 0 ? 1 : 0, kUnits[unit]);
}

std::string model_text(const ModelInfo& m) {
  const double millions = double(m.parameters) / 1e6;
  const std::string size = millions < 1000 ? fmt::format("{:.1f} M", millions) : fmt::format("{:.2f} B", millions / 1000);
  return fmt::format("{} ({}, {} parameters, {}, {})", m.name, m.architecture, size, m.file_type, bytes_text(double(m.weight_bytes)));
}

std::string cache_text(const Engine& engine, int block_size) {
  const ModelInfo& m = engine.info();
  const int64_t tokens = engine.stats().blocks_total * block_size;
  return fmt::format("context {} of {} tokens; KV cache {} blocks, {} tokens, {}", m.max_model_len, m.context_length, tokens / std::max(1, block_size), tokens,
                     bytes_text(double(tokens) * double(m.kv_bytes_per_token)));
}

}  // namespace isotope::app
