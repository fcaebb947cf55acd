// isotope tokenize: the ids a model's tokenizer gives for a text, and what each stands for.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "model_path.h"
#include "output.h"
#include "text/tokenizer.h"
#include "tokenize_bench.h"
#include "weights/checkpoint.h"

namespace isotope::app {
namespace {

struct Options {
  std::string model, prompt;
  bool from_stdin = true, ids_only = false, no_special = false, plain = false;
  TokenizeBench bench;
};

std::string read_stdin() {
  std::string text;
  char buffer[1 << 16];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) text.append(buffer, n);
  return text;
}

/// A tokenizer.json by itself, or the tokenizer of a model.
Result<std::unique_ptr<text::Tokenizer>> open_tokenizer(const Options& o, const Context& context) {
  if (o.model.ends_with(".json")) {
    std::ifstream in(o.model, std::ios::binary);
    if (!in) return fail(Code::not_found, "the file cannot be read", o.model, "name a tokenizer.json or a model");
    VocabSource source;
    source.tokenizer_json.assign(std::istreambuf_iterator<char>(in), {});
    return text::Tokenizer::create(source);
  }
  ISO_TRY(const levers::Levers levers, resolve_levers(context));
  ISO_TRY(const std::string path, model_path(o.model, context.environment));
  ISO_TRY(const auto files, weights::open_checkpoint(path, levers.loading()));
  return text::Tokenizer::create(files->vocab());
}

int run(const Options& o, const Context& context) {
  const auto tok = open_tokenizer(o, context);
  if (!tok) return report(tok.error());
  if (!o.bench.file.empty()) {
    const auto row = bench_tokenizer(**tok, o.bench);
    if (!row) return report(row.error());
    out(*row + "\n");
    return 0;
  }
  const text::Tokenizer::Piece piece{o.from_stdin ? read_stdin() : o.prompt, !o.plain};
  const auto ids = (*tok)->try_encode({&piece, 1}, !o.no_special);
  if (!ids) return report(ids.error());
  if (o.ids_only) {
    out(fmt::format("[{}]\n", fmt::join(*ids, ", ")));
    return 0;
  }
  for (const int32_t id : *ids) {
    const std::string bytes = (*tok)->token_bytes(id);
    print("{:>8}  {}{}\n", id, nlohmann::json(bytes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), (*tok)->is_special(id) ? "  special" : "");
  }
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& app, Context& context) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("tokenize", "the token ids of a text and what each stands for");
  sub->add_option("model", o->model, "GGUF file, Hugging Face folder, built-in name or tokenizer.json")->required();
  CLI::Option* prompt = sub->add_option("-p,--prompt", o->prompt, "the text (default: standard input)");
  sub->add_flag("--ids", o->ids_only, "only the ids, as one list");
  sub->add_flag("--no-special", o->no_special, "do not add the tokens that begin or end a text");
  sub->add_flag("--plain", o->plain, "text that spells a control token stays text");
  sub->add_option("--bench", o->bench.file, "measure the speed on this text file instead; one line of JSON");
  sub->add_option("--threads", o->bench.threads, "threads of --bench, each with documents of its own (default 1)")->check(CLI::Range(1, 256));
  sub->add_option("--seconds", o->bench.seconds, "how long --bench measures (default 2)")->check(CLI::Range(0.0, 600.0));
  sub->callback([o, prompt, &context] {
    o->from_stdin = prompt->empty();
    context.run = [o, &context] { return run(*o, context); };
  });
}

}  // namespace isotope::app
