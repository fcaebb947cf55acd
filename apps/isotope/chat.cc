#include "chat.h"

#include <algorithm>

#include "serve/call.h"
#include "serve/job.h"

namespace isotope::app {
namespace {

struct FieldFlag {
  const char* field;
  const char* flag;
};
constexpr FieldFlag kFlags[] = {
    {"max_tokens", "-n"},           {"temperature", "--temp"}, {"top_p", "--top-p"}, {"top_k", "--top-k"},
    {"min_p", "--min-p"},           {"seed", "--seed"},        {"stop", "--stop"},   {"repetition_penalty", "--repetition-penalty"},
    {"prompt", "-p"},               {"messages", "the conversation"}};

// The fields were filled from flags, so that is what a message should name.
Error named(Error e) {
  const std::string field(serve::field_path(e));
  for (const FieldFlag& f : kFlags) {
    if (field == f.field || field.starts_with(std::string(f.field) + "[")) e.source = f.flag;
  }
  if (field == "messages" && e.what.find("maximum context") != std::string::npos) e.remedy = "start afresh with /reset, or raise --ctx-size";
  return e;
}

}  // namespace

Result<Answer> ask(serve::Frontend& front, const serve::Json& body, bool raw, Interrupt& interrupt, const std::function<void(const std::string&)>& on_text) {
  auto call = raw ? serve::parse_completion(body, front) : serve::parse_chat(body, front);
  if (!call) return tl::unexpected(named(call.error().error));
  serve::Job job(front.engine(), front.tokenizer(), call->spec, size_t(1) << 30);
  job.set_wake([&interrupt] { interrupt.wake(); });
  if (auto started = job.start(front.next_id()); !started) return tl::unexpected(named(started.error()));
  Answer answer;
  for (;;) {
    job.poll();
    const std::string text = job.choice(0).take_text();
    if (!text.empty()) on_text(text);
    answer.text += text;
    if (job.finished()) break;
    if (interrupt.pressed()) {
      answer.interrupted = true;
      break;
    }
    interrupt.wait();
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
