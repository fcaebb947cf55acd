// isotope run: one answer on standard output, or a chat on the terminal.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "chat.h"
#include "commands.h"
#include "flags.h"
#include "load.h"
#include "log_lines.h"
#include "model_path.h"
#include "output.h"
#include "repl.h"
#include "usage.h"

namespace isotope::app {
namespace {

using serve::Json;

struct Flags {
  EngineFlags engine;
  std::string model, prompt, system, chat_template;
  std::vector<std::string> stop;
  bool prompt_given = false, raw = false, verbose = false, ignore_eos = false;
  CLI::Option *n = nullptr, *seed = nullptr;
  int64_t max_tokens = -1;
  std::string seed_text;
  std::map<std::string, double> numbers;        ///< request field -> value, for those that were given
  std::vector<std::pair<std::string, CLI::Option*>> number_options;
};

struct NumberRow {
  const char* field;
  const char* flags;
  const char* help;
};
constexpr NumberRow kNumbers[] = {
    {"temperature", "--temp,--temperature", "0 takes the likeliest token; larger is freer"},
    {"top_p", "--top-p,--top_p", "keep the likeliest tokens up to this probability"},
    {"top_k", "--top-k,--top_k", "keep that many tokens; 0 = all"},
    {"min_p", "--min-p,--min_p", "keep tokens of at least this share of the likeliest one's probability"},
    {"repetition_penalty", "--repetition-penalty,--repetition_penalty,--repeat-penalty", "above 1: tokens that were there become less likely"},
    {"presence_penalty", "--presence-penalty,--presence_penalty", "taken off once a token was there"},
    {"frequency_penalty", "--frequency-penalty,--frequency_penalty", "taken off for each time a token was there"},
};

void add_flags(CLI::App& sub, Flags& f) {
  sub.add_option("-m,--model,model", f.model, "GGUF file, Hugging Face folder, smollm2-135m or gemma3-270m")->required();
  sub.add_option("-p,--prompt", f.prompt, "what to ask; - reads standard input. Without it: a chat, or standard input when that is no terminal");
  f.n = sub.add_option("-n,--max-tokens,--max_tokens", f.max_tokens, "most tokens of an answer; -1 = to its end")->check(CLI::Range(int64_t{-1}, int64_t{1} << 40));
  f.seed = sub.add_option("-s,--seed", f.seed_text, "the same seed gives the same answer")->check(kSeed);
  for (const NumberRow& r : kNumbers) {
    f.numbers[r.field] = 0;
    f.number_options.emplace_back(r.field, sub.add_option(r.flags, f.numbers[r.field], r.help));
  }
  sub.add_option("--system", f.system, "system message");
  sub.add_option("--stop", f.stop, "end the answer before this text (repeatable)")->allow_extra_args(false);
  sub.add_option("--chat-template,--chat_template", f.chat_template, "file, name of a template, or the template itself");
  sub.add_flag("--raw", f.raw, "continue the prompt as it stands, without a chat template");
  sub.add_flag("--ignore-eos,--ignore_eos", f.ignore_eos, "go on past the end token");
  sub.add_flag("-v,--verbose", f.verbose, "tell about the model and about speed on standard error");
  f.engine.add(sub);
}

// kSeed has seen the text.
Json seed_of(const std::string& text) {
  if (text.starts_with('-')) return std::strtoll(text.c_str(), nullptr, 10);
  return std::strtoull(text.c_str(), nullptr, 10);
}

Json sampling_fields(const Flags& f, const serve::Frontend& front) {
  Json out = Json::object();
  // A terminal wants answers that make sense rather than variety; what the model's own file says goes first.
  const serve::SamplingDefaults& d = front.defaults();
  if (!d.temperature && !d.top_p && !d.top_k) out = {{"temperature", 0.2}, {"top_p", 0.9}};
  for (const auto& [field, option] : f.number_options) {
    if (option->count() == 0) continue;
    out[field] = f.numbers.at(field);
  }
  if (f.n->count() > 0 && f.max_tokens >= 0) out["max_tokens"] = f.max_tokens;
  if (f.seed->count() > 0) out["seed"] = seed_of(f.seed_text);
  if (!f.stop.empty()) out["stop"] = f.stop;
  if (f.ignore_eos) out["ignore_eos"] = true;
  return out;
}

std::string read_stdin() {
  std::string text;
  char chunk[65536];
  for (size_t n = 0; (n = std::fread(chunk, 1, sizeof chunk, stdin)) > 0;) text.append(chunk, n);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

void report_speed(const Answer& a) {
  const RequestStats& s = a.stats;
  const auto rate = [](int64_t n, double t) { return t > 0 ? double(n) / t : 0.0; };
  std::fprintf(stderr, "prompt %lld tokens (%lld cached) in %.3f s, %.1f tokens/s; answer %lld tokens in %.3f s, %.1f tokens/s; seed %llu\n",
               static_cast<long long>(s.prompt_tokens), static_cast<long long>(s.cached_tokens), s.prefill_s, rate(s.prompt_tokens - s.cached_tokens, s.prefill_s),
               static_cast<long long>(s.output_tokens), s.decode_s, rate(s.output_tokens, s.decode_s), static_cast<unsigned long long>(s.seed));
}

int one_shot(const Flags& f, serve::Frontend& front, const std::string& prompt, bool raw) {
  Json body = sampling_fields(f, front);
  if (raw) {
    body["prompt"] = prompt;
    // A base model rarely ends by itself.
    if (!body.contains("max_tokens")) body["max_tokens"] = f.n->count() == 0 ? 256 : front.max_model_len();
  } else {
    body["messages"] = Json::array();
    if (!f.system.empty()) body["messages"].push_back({{"role", "system"}, {"content", f.system}});
    body["messages"].push_back({{"role", "user"}, {"content", prompt}});
  }
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  Interrupt interrupt;
  char last = '\n';
  const auto answer = ask(front, body, interrupt, {.raw = raw, .on_text = [&](const std::string& text) {
    const std::string shown = terminal ? printable(text) : text;
    if (!shown.empty()) last = shown.back();
    return out_now(shown);
  }});
  if (!answer) return report(answer.error());
  if (last != '\n' || answer->text.empty()) out("\n");
  out_now("");
  if (f.verbose) report_speed(*answer);
  return answer->interrupted ? 130 : 0;
}

std::string history_file(const std::map<std::string, std::string>& environment) {
  const auto get = [&](const char* name) {
    const auto it = environment.find(name);
    return it == environment.end() ? std::string() : it->second;
  };
  const std::string cache = !get("XDG_CACHE_HOME").empty() ? get("XDG_CACHE_HOME") : get("HOME").empty() ? "" : get("HOME") + "/.cache";
  return cache.empty() ? "" : cache + "/isotope/history";
}

Result<Loaded> open(const Flags& f, const Context& context, const levers::Levers& levers) {
  ISO_TRY(const std::string path, model_path(f.model, context.environment));
  ISO_TRY(EngineOptions options, f.engine.resolve(path, levers));
  options.max_num_seqs = 4;   // one conversation
  const bool show = ::isatty(STDERR_FILENO) != 0;
  const QuitOnInterrupt quit;
  std::string shown;
  auto loaded = load_model(options, levers, {.chat_template = f.chat_template}, [show, &shown](const LoadProgress& p) {
    std::string text = show ? progress_text(p) : "";
    if (text == shown) return;
    shown = std::move(text);
    std::fprintf(stderr, "\r\x1b[K%s", shown.c_str());
  });
  if (show) std::fputs("\r\x1b[K", stderr);
  return loaded;
}

int run(const Flags& f, const Context& context) {
  const auto levers = resolve_levers(context);
  if (!levers) return report(levers.error());
  const bool terminal = ::isatty(STDIN_FILENO) != 0;
  const bool chat = f.prompt.empty() && !f.prompt_given && terminal && !f.raw;
  std::string prompt = f.prompt;
  if (f.prompt == "-" || (!f.prompt_given && !terminal)) prompt = read_stdin();
  if (!chat && prompt.empty()) {
    return report(Error{Code::invalid_argument, "there is no prompt", "-p", "give one with -p TEXT, or on standard input"});
  }
  show_log(*levers, f.verbose);
  auto loaded = open(f, context, *levers);
  if (!loaded) return report(loaded.error());
  serve::Frontend& front = *loaded->front;
  if (f.verbose) std::fprintf(stderr, "%s\n%s\n", model_text(front.engine().info()).c_str(), cache_text(front.engine(), f.engine.options.block_size).c_str());
  const bool raw = f.raw || !front.has_chat_template();
  if (raw && !f.raw && !chat && ::isatty(STDERR_FILENO) != 0) {
    std::fputs("isotope: this model has no chat template: it continues the prompt as it stands (--raw says so without this line)\n", stderr);
  }
  int status = 0;
  if (chat && !raw) {
    Interrupt interrupt;
    status = repl(front, {.system = f.system, .sampling = sampling_fields(f, front), .history_file = history_file(context.environment), .verbose = f.verbose}, interrupt);
  } else if (chat) {
    status = report(Error{Code::invalid_argument, "this model has no chat template, so it cannot chat", f.model, "give --chat-template chatml, or a prompt with -p"});
  } else {
    status = one_shot(f, front, prompt, raw);
  }
  front.engine().shutdown(0);
  return status;
}

}  // namespace

void add_run(CLI::App& app, Context& context) {
  auto f = std::make_shared<Flags>();
  CLI::App* sub = app.add_subcommand("run", "answer a prompt, or chat on the terminal");
  add_flags(*sub, *f);
  sub->callback([f, sub, &context] {
    f->prompt_given = sub->get_option("--prompt")->count() > 0;
    context.run = [f, &context] { return run(*f, context); };
  });
}

}  // namespace isotope::app
