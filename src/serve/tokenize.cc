// Prompts to ids: the front end's clock and cache around the tokenizer.
#include <chrono>
#include <utility>

#include "base/log.h"
#include "serve/frontend.h"
#include "text/delta_reuse.h"

namespace isotope::serve {
namespace {

using telemetry::Kind;

constexpr double kSeconds[] = {1e-5, 1e-4, 1e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
constexpr telemetry::Row kTimes[] = {{.name = "atom:api_tokenize_seconds", .kind = Kind::histogram, .help = "Time for a prompt's text to become ids.", .buckets = kSeconds}};

constexpr telemetry::Row kCache[] = {
    {.name = "isotope:tokenize_cache_prompt_hits", .kind = Kind::counter, .help = "Prompts that began like an earlier one."},
    {.name = "isotope:tokenize_cache_segment_hits", .kind = Kind::counter, .help = "Segments between added tokens whose ids were known."},
    {.name = "isotope:tokenize_cache_misses", .kind = Kind::counter, .help = "Segments that had to be encoded."},
    {.name = "isotope:tokenize_cache_evictions", .kind = Kind::counter, .help = "Entries that made room for others."},
    {.name = "isotope:tokenize_cache_disabled", .kind = Kind::counter, .help = "1 after the cache and the plain encoder differed."},
    {.name = "isotope:tokenize_cache_bypassed", .kind = Kind::counter, .help = "Prompts too short for the cache."},
    {.name = "isotope:tokenize_cache_checked", .kind = Kind::counter, .help = "Prompts that were compared with the plain encoder."},
    {.name = "isotope:tokenize_cache_bytes", .kind = Kind::gauge, .help = "Bytes that entries hold."},
    {.name = "isotope:tokenize_cache_budget_bytes", .kind = Kind::gauge, .help = "Bytes that they may hold."},
};

constexpr telemetry::Row kDetokenizer[] = {
    {.name = "isotope:detok_calls", .kind = Kind::counter, .help = "Updates of detokenizing streams, in this process."},
    {.name = "isotope:detok_reused", .kind = Kind::counter, .help = "Updates that went on from the state of the one before."},
    {.name = "isotope:detok_audits", .kind = Kind::counter, .help = "Updates that were compared with a decode."},
    {.name = "isotope:detok_mismatches", .kind = Kind::counter, .help = "Comparisons that failed; the first one ends the reuse."},
    {.name = "isotope:detok_reuse", .kind = Kind::gauge, .help = "1 while updates go on from the one before."},
};

std::string detokenizer_metrics() {
  const text::DetokenizerStats s = text::DeltaReuse::process().stats();
  telemetry::Registry now(kDetokenizer, {});
  const double counters[] = {double(s.calls), double(s.reused), double(s.audits), double(s.mismatches)};
  for (size_t i = 0; i < std::size(counters); i++) now.add(i, counters[i]);
  now.set(std::size(counters), s.on);
  return now.prometheus();
}

template <class F>
auto timed(telemetry::Registry& times, F f) {
  const auto begin = std::chrono::steady_clock::now();
  auto out = f();
  times.observe(0, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return out;
}

}  // namespace

void Frontend::open_cache() {
  tokenize_times_ = std::make_unique<telemetry::Registry>(kTimes, telemetry::Labels{});
  if (!options_.delta_reuse.empty()) {
    text::DeltaReuse::process().configure(options_.delta_reuse, options_.audit_every, *tokenizer_, [](bool error, const std::string& what) {
      base::log(error ? base::LogLevel::error : base::LogLevel::info, "{}", what);
    });
  }
  if (options_.tokenize_cache_bytes <= 0) return;
  tokenizer_ = text::CachedTokenizer::wrap(std::move(tokenizer_), {.budget_bytes = options_.tokenize_cache_bytes,
                                                                  .min_characters = options_.tokenize_cache_from,
                                                                  .warn = [](const std::string& what) { base::log(base::LogLevel::warning, "{}", what); }});
  cached_ = dynamic_cast<const text::CachedTokenizer*>(tokenizer_.get());
}

Result<std::vector<int32_t>> Frontend::chat_ids(const ChatInput& in) const {
  ISO_TRY(const auto pieces, render(in));
  return timed(*tokenize_times_, [&] { return tokenizer_->encode_pieces(pieces, in.add_special_tokens); });
}

std::vector<int32_t> Frontend::text_ids(std::string_view text, bool add_special, bool parse_special) const {
  return timed(*tokenize_times_, [&] { return tokenizer_->encode(text, add_special, parse_special); });
}

std::string Frontend::tokenize_metrics() const {
  std::string out = tokenize_times_->prometheus() + detokenizer_metrics();
  if (!cached_) return out;
  const text::TokenizeCacheStats s = cached_->stats();
  telemetry::Registry now(kCache, {});
  const double counters[] = {double(s.prompt_hits), double(s.segment_hits), double(s.misses), double(s.evictions), double(s.disabled), double(s.bypassed), double(s.checked)};
  for (size_t i = 0; i < std::size(counters); i++) now.add(i, counters[i]);
  now.set(std::size(counters), double(s.bytes));
  now.set(std::size(counters) + 1, double(s.budget));
  return out + now.prometheus();
}

}  // namespace isotope::serve
