// isotope perplexity: how well a model predicts a text. The text is cut into windows that do not overlap; each starts from an empty context, and the
// tokens of its second half are scored, as llama-perplexity does, so that both programs measure the same tokens: the first token of a window gives way
// to BOS when the vocabulary asks for one.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/input_file.h"
#include "base/output_file.h"
#include "commands.h"
#include "direct.h"
#include "models/direct.h"
#include "output.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace isotope::app {
namespace {

struct Options {
  DirectFlags direct;
  std::string ids_file, text_file, write_ids, kv = "f16";
  int window = 512, chunk = 64, max_windows = 0;
  bool json = false;
};

const std::map<std::string, KvType> kKvTypes = {
    {"f32", KvType::f32}, {"f16", KvType::f16}, {"bf16", KvType::bf16}, {"int8", KvType::int8}, {"fp8", KvType::fp8}};

/// Negative log-likelihoods, summed in double.
struct Score {
  int64_t tokens = 0;
  double sum = 0, squares = 0;
  std::vector<double> window_means;

  void add(double nll) { ++tokens, sum += nll, squares += nll * nll; }
  double mean() const { return sum / double(tokens); }
  double perplexity() const { return std::exp(mean()); }
  /// Of the perplexity: the standard error of the mean, carried through exp().
  double error() const {
    const double variance = squares / double(tokens) - mean() * mean();
    return tokens > 1 && variance > 0 ? std::sqrt(variance / double(tokens - 1)) * perplexity() : 0;
  }
};

constexpr uint64_t kMostBytes = uint64_t{1} << 32;

/// A JSON array of token ids.
Result<std::vector<int32_t>> json_ids(const std::string& s, const std::string& path) {
  constexpr const char* kRemedy = "write a JSON array of integers, or integers with white space between them";
  const auto json = nlohmann::json::parse(s, nullptr, false);
  if (!json.is_array()) return fail(Code::invalid_argument, "the file begins with '[' but is no JSON array", path, kRemedy);
  std::vector<int32_t> ids;
  for (const auto& v : json) {
    if (!v.is_number_integer() || v.get<int64_t>() < 0 || v.get<int64_t>() > INT32_MAX || (v.is_number_unsigned() && v.get<uint64_t>() > INT32_MAX))
      return fail(Code::invalid_argument, fmt::format("'{}' at place {} is no token id", v.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 20), ids.size()),
                  path, kRemedy);
    ids.push_back(v.get<int32_t>());
  }
  return ids;
}

/// Integers separated by white space or commas, or a JSON array of them.
Result<std::vector<int32_t>> read_ids(const std::string& path) {
  ISO_TRY(const std::string s, base::read_input(path, kMostBytes, "--ids-file"));
  constexpr std::string_view kBetween = " \t\r\n,";
  if (const size_t first = s.find_first_not_of(kBetween); first < s.size() && s[first] == '[') return json_ids(s, path);
  std::vector<int32_t> ids;
  for (size_t i = s.find_first_not_of(kBetween); i < s.size(); i = s.find_first_not_of(kBetween, i)) {
    const size_t end = std::min(s.find_first_of(kBetween, i), s.size());
    int32_t id = 0;
    const auto r = std::from_chars(s.data() + i, s.data() + end, id);
    if (r.ec != std::errc() || r.ptr != s.data() + end)
      return fail(Code::invalid_argument, fmt::format("'{}' at byte {} is no token id", s.substr(i, std::min<size_t>(end - i, 20)), i), path, "write integers");
    ids.push_back(id);
    i = end;
  }
  return ids;
}

/// -log p(token), from a row of logits.
double negative_log_likelihood(const float* logits, int64_t vocab, int32_t token) {
  const float top = *std::max_element(logits, logits + vocab);
  double sum = 0;
  for (int64_t i = 0; i < vocab; ++i) sum += std::exp(double(logits[i] - top));
  return std::log(sum) - double(logits[token] - top);
}

class Perplexity {
 public:
  Perplexity(const Options& o, const models::Model& model, ops::Ops& ops, int32_t bos) : o_(o), model_(model), ops_(ops), bos_(bos) {}

  Result<Score> run(std::span<const int32_t> ids) {
    const size_t windows = o_.max_windows ? std::min(ids.size() / size_t(o_.window), size_t(o_.max_windows)) : ids.size() / size_t(o_.window);
    const bool terminal = isatty(STDERR_FILENO) && !o_.json;
    Score score;
    for (size_t w = 0; w < windows; ++w) {
      const double before = score.sum;
      const int64_t tokens = score.tokens;
      ISO_CHECK_OK(one(ids.subspan(w * size_t(o_.window), size_t(o_.window)), score));
      score.window_means.push_back((score.sum - before) / double(score.tokens - tokens));
      if (terminal) std::fprintf(stderr, "\rwindow %zu of %zu: perplexity %.4f +/- %.4f ", w + 1, windows, score.perplexity(), score.error());
    }
    if (terminal) std::fputc('\n', stderr);
    return score;
  }

 private:
  Result<void> one(std::span<const int32_t> ids, Score& score) {
    std::vector<int32_t> fed(ids.begin(), ids.end());
    if (bos_ >= 0) fed[0] = bos_;
    ISO_TRY(models::Direct direct, models::Direct::create(model_, ops_, {.max_len = o_.window, .kv = kKvTypes.at(o_.kv)}));
    const size_t first = fed.size() / 2, step = size_t(o_.chunk);
    for (size_t at = 0; at + 1 < fed.size();) {
      // The last token predicts nothing that is scored.
      const size_t limit = at < first ? first : fed.size() - 1, n = std::min(step, limit - at);
      const models::Chunk chunk{.tokens = std::span(fed).subspan(at, n), .all_logits = at >= first, .no_logits = at < first};
      ISO_TRY(const ops::Tensor logits, direct.step({&chunk, 1}));
      if (at >= first)
        for (size_t i = 0; i < n; ++i) score.add(negative_log_likelihood(logits.row(int64_t(i)), logits.cols, fed[at + i + 1]));
      at += n;
    }
    return {};
  }

  const Options& o_;
  const models::Model& model_;
  ops::Ops& ops_;
  int32_t bos_;
};

/// Where a text may be cut without cutting a character, at a line's end if there is one.
size_t cut_at(std::string_view text, size_t near) {
  if (near >= text.size()) return text.size();
  if (const size_t line = text.rfind('\n', near); line != std::string_view::npos && line > near / 2) return line + 1;
  while (near > 0 && (static_cast<unsigned char>(text[near]) & 0xC0) == 0x80) --near;
  return near;
}

/// The ids of the text, or, when a few windows are all that is wanted, of as much of its beginning as they take.
std::vector<int32_t> text_ids(const text::Tokenizer& tokenizer, std::string_view text, const Options& o) {
  constexpr size_t kBytesPerToken = 16, kMargin = 1024;  // what stands far behind a place no longer changes how it is cut
  const size_t wanted = o.max_windows == 0 || !o.write_ids.empty() ? SIZE_MAX / kBytesPerToken / 2 : size_t(o.max_windows) * size_t(o.window) + kMargin;
  for (size_t bytes = wanted * kBytesPerToken;; bytes *= 4) {
    const size_t end = cut_at(text, bytes);
    std::vector<int32_t> ids = tokenizer.encode(text.substr(0, end), true, false);  // text that spells a control token stays text, as in llama-perplexity
    if (end == text.size() || ids.size() >= wanted) return ids;
  }
}

Result<std::string> read_text(const std::string& path) {
  ISO_TRY(std::string text, base::read_input(path, kMostBytes, "--text-file"));
  if (!text::valid_utf8(text)) return fail(Code::invalid_argument, "'" + path + "' is not UTF-8 text", "--text-file", "convert it, for example with iconv -t UTF-8");
  return text;
}

Result<void> write_ids(const std::string& path, const std::vector<int32_t>& ids) {
  std::string text;
  for (int32_t id : ids) text += std::to_string(id) + "\n";
  return base::write_output(path, text, "--write-ids");
}

void show(const Options& o, const Score& s, bool bos, const std::string& ops, double seconds) {
  if (!o.json) {
    print("perplexity {:.4f} +/- {:.4f} ({} windows of {}, {} tokens scored, {:.1f} s)\n", s.perplexity(), s.error(), s.window_means.size(), o.window,
          s.tokens, seconds);
    return;
  }
  const nlohmann::ordered_json j = {{"model", o.direct.model}, {"perplexity", s.perplexity()}, {"standard_error", s.error()}, {"mean_nll", s.mean()},
      {"window", o.window}, {"windows", s.window_means.size()}, {"scored_tokens", s.tokens}, {"bos", bos}, {"kv", o.kv}, {"precision", o.direct.precision},
      {"ops", ops}, {"seconds", seconds}, {"window_mean_nll", s.window_means}};
  out(j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

Result<void> run(const Options& o, const Context& context) {
  if (o.ids_file.empty() == o.text_file.empty())
    return fail(Code::invalid_argument, "one text is needed", "--text-file, --ids-file", "give exactly one of them");
  const auto start = std::chrono::steady_clock::now();
  if (!o.write_ids.empty()) ISO_CHECK_OK(base::OutputFile::check(o.write_ids, "--write-ids"));
  ISO_TRY(const levers::Levers levers, resolve_levers(context));
  ISO_TRY(DirectFiles files, open_direct(o.direct, levers, context.environment, o.window));
  ISO_TRY(const auto tokenizer, text::Tokenizer::create(files.files->vocab()));
  std::vector<int32_t> ids;
  if (!o.ids_file.empty()) {
    ISO_TRY(ids, read_ids(o.ids_file));
  } else {
    ISO_TRY(const std::string text, read_text(o.text_file));
    ids = text_ids(*tokenizer, text, o);
  }
  if (!o.write_ids.empty()) ISO_CHECK_OK(write_ids(o.write_ids, ids));
  if (ids.size() < size_t(o.window))
    return fail(Code::invalid_argument, fmt::format("the text has {} tokens, one window takes {}", ids.size(), o.window), o.ids_file + o.text_file,
                "give a longer text or a smaller --window");

  ISO_CHECK_OK(files.check_context(o.window, fmt::format("a window has {} tokens", o.window), "--window"));
  ISO_TRY(const DirectModel m, load_direct(files, o.direct, levers));
  const bool bos = tokenizer->adds_bos() && tokenizer->bos_id() >= 0;
  ISO_TRY(const Score score, Perplexity(o, *m.model, *m.ops, bos ? tokenizer->bos_id() : -1).run(ids));
  show(o, score, bos, m.ops->describe(), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return {};
}

}  // namespace

void add_perplexity(CLI::App& app, Context& context) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("perplexity", "perplexity of a text in windows, comparable with llama-perplexity");
  o->direct.add(*sub);
  sub->add_option("--text-file,-f", o->text_file, "the text, UTF-8");
  sub->add_option("--ids-file", o->ids_file, "token ids instead: integers, or a JSON array");
  sub->add_option("--write-ids", o->write_ids, "also write the token ids of the text, one a line");
  sub->add_option("--window", o->window, "tokens of a window; its second half is scored")->check(CLI::Range(4, 1 << 20));
  sub->add_option("--max-windows", o->max_windows, "0 = all")->check(CLI::Range(0, 1 << 20));
  sub->add_option("--kv", o->kv, "KV cache type")->check(CLI::IsMember(kKvTypes));
  sub->add_option("--chunk", o->chunk, "tokens a step; does not change the result")->check(CLI::Range(1, 1 << 20));
  sub->add_flag("--json", o->json, "one JSON object");
  sub->callback([o, &context] {
    context.run = [o, &context] {
      const auto done = run(*o, context);
      return done ? 0 : report(done.error());
    };
  });
}

}  // namespace isotope::app
