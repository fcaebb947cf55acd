#include "chat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "serve/api_error.h"
#include "serve/call.h"
#include "serve/job.h"

namespace isotope::app {
namespace {

using serve::Json;

struct FieldFlag {
  const char* field;
  const char* flag;
};
constexpr FieldFlag kFlags[] = {
    {"max_tokens", "-n"},           {"temperature", "--temp"}, {"top_p", "--top-p"}, {"top_k", "--top-k"},
    {"min_p", "--min-p"},           {"seed", "--seed"},        {"stop", "--stop"},   {"repetition_penalty", "--repetition-penalty"},
    {"prompt", "-p"},               {"messages", "the conversation"}};

// The fields were filled from flags, so that is what a message should name.
Error named(Error e, const serve::Frontend& front, bool conversation) {
  const std::string field(serve::field_path(e));
  for (const FieldFlag& f : kFlags) {
    if (field == f.field || field.starts_with(std::string(f.field) + "[")) e.source = f.flag;
  }
  if (e.what.find("maximum context") != std::string::npos) {
    const ModelInfo& m = front.engine().info();
    e.remedy = conversation ? "start afresh with /reset" : "shorten the prompt";
    if (m.max_model_len < m.context_length) e.remedy += fmt::format(", or raise --ctx-size (the model was trained for {})", m.context_length);
  }
  return e;
}

Json::const_iterator number(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_number_integer() ? it : object.end();
}

serve::Api<serve::Call> parse(serve::Frontend& front, Json& body, bool raw) {
  const auto once = [&] { return raw ? serve::parse_completion(body, front) : serve::parse_chat(body, front); };
  auto call = once();
  if (call || serve::field_path(call.error().error) != "max_tokens") return call;
  const auto prompt = number(call.error().extra, "n_prompt_tokens"), context = number(call.error().extra, "n_ctx");
  if (prompt == call.error().extra.end() || context == call.error().extra.end()) return call;
  body["max_tokens"] = context->get<int64_t>() - prompt->get<int64_t>();
  return once();
}

/// Tells a terminal about a prompt that takes a while.
class PromptProgress {
 public:
  explicit PromptProgress(size_t tokens) : tokens_(tokens) {}
  ~PromptProgress() { clear(); }
  /// Seconds to wait before the next update(); -1: none is needed.
  double pause() const { return done_ || !terminal_ ? -1 : 0.25; }
  void update() {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start_).count();
    if (done_ || !terminal_ || seconds < 1) return;
    std::string text = fmt::format("reading the prompt of {} tokens: {} s", tokens_, seconds);
    if (text == shown_) return;
    shown_ = std::move(text);
    std::fprintf(stderr, "\r\x1b[K%s", shown_.c_str());
    std::fflush(stderr);
  }
  void clear() {
    if (!shown_.empty()) std::fputs("\r\x1b[K", stderr);
    shown_.clear();
    done_ = true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  size_t tokens_;
  Clock::time_point start_ = Clock::now();
  std::string shown_;
  bool done_ = false, terminal_ = ::isatty(STDERR_FILENO) != 0;
};

}  // namespace

Result<Answer> ask(serve::Frontend& front, Json body, Interrupt& interrupt, const Asking& asking) {
  auto call = parse(front, body, asking.raw);
  if (!call) return tl::unexpected(named(call.error().error, front, asking.conversation));
  serve::Job job(front.engine(), front.tokenizer(), call->spec, size_t(1) << 30);
  job.set_wake([&interrupt] { interrupt.wake(); });
  PromptProgress progress(call->spec.prompts[0].ids.size());
  if (auto started = job.start(front.next_id()); !started) return tl::unexpected(named(started.error(), front, asking.conversation));
  Answer answer;
  for (;;) {
    job.poll();
    const std::string text = job.choice(0).take_text();
    if (!text.empty()) progress.clear();
    const bool wanted = text.empty() || asking.on_text(text);
    answer.text += text;
    if (job.finished()) break;
    if (!wanted || interrupt.pressed()) {
      answer.interrupted = wanted;
      break;
    }
    progress.update();
    interrupt.wait(progress.pause());
  }
  if (job.error()) return tl::unexpected(*job.error());
  answer.finish = job.choice(0).finish();
  answer.usage = job.usage();
  answer.stats = job.stats(0).value_or(RequestStats{});
  answer.stats.seed = call->spec.sampling.seed.value_or(0);
  return answer;
}

std::string printable(const std::string& text) {
  std::string out = text;
  std::erase_if(out, [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F; });
  return out;
}

}  // namespace isotope::app
