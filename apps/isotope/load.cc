#include "load.h"

#include <fmt/format.h>

#include <utility>

namespace isotope::app {

Result<Loaded> load_model(const EngineOptions& options, const levers::Levers& levers, serve::FrontendOptions front,
                          const std::function<void(const LoadProgress&)>& progress) {
  Loaded out;
  ISO_TRY(out.engine, Engine::open(options, levers, progress));
  ISO_TRY(auto tokenizer, text::Tokenizer::create(out.engine->vocab()));
  ISO_TRY(out.front, serve::Frontend::create(*out.engine, std::move(tokenizer), std::move(front)));
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
