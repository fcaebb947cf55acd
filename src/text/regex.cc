#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <time.h>

#include "text/unicode.h"

namespace isotope::text {
namespace {

constexpr uint32_t kMatchLimit = 5'000'000;             // backtracking steps of one search
constexpr uint32_t kHeapLimitKib = 64 * 1024;
constexpr double kSecondsPerText = 2, kSecondsPerByte = 3e-6;  // processor time of all searches in one text
constexpr size_t kMaxPattern = 1 << 16;

/// Of this thread, so that a busy machine changes nothing.
double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

std::string error_text(int code) {
  PCRE2_UCHAR buffer[200];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct RegexWork::State {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 * 1024, 8 * 1024 * 1024, nullptr);
  double deadline = 0;
  uint32_t searches = 0;

  State() {
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKib);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    if (stack) pcre2_jit_stack_free(stack);
  }
};

RegexWork::RegexWork() : state_(std::make_unique<State>()) {}
RegexWork::~RegexWork() = default;

void RegexWork::begin(size_t text_bytes) {
  error_.clear();
  limit_ = (size_t{1} << 20) + text_bytes * 32;  // the normal forms need up to 18
  state_->deadline = processor_seconds() + kSecondsPerText + kSecondsPerByte * double(text_bytes);
  state_->searches = 0;
}

bool RegexWork::fits(size_t bytes) {
  if (bytes <= limit_) return true;
  if (error_.empty()) error_ = "the tokenizer's normalizer makes this text more than 32 times longer";
  return false;
}

struct Regex::Compiled {
  pcre2_code* code = nullptr;
  ~Compiled() { pcre2_code_free(code); }
};

Regex::Regex(std::unique_ptr<Compiled> code) : code_(std::move(code)) {}
Regex::~Regex() = default;
size_t Regex::char_bytes(char lead) { return char_length(lead); }

Result<std::unique_ptr<Regex>> Regex::compile(std::string_view oniguruma) {
  const auto refuse = [&](std::string why) {
    return fail(Code::unsupported, "cannot use the regular expression '" + std::string(oniguruma.substr(0, 120)) + "': " + why, "tokenizer.json",
                "use a tokenizer whose patterns Isotope can run exactly");
  };
  if (oniguruma.size() > kMaxPattern) return refuse("it is longer than 65536 bytes");
  auto translated = translate_regex(oniguruma);
  if (!translated) return refuse(translated.error().what);
  auto code = std::make_unique<Compiled>();
  std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(), PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                             context.get());
  if (!code->code) return refuse(error_text(error));
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);  // without JIT the interpreter gives the same matches
  return std::unique_ptr<Regex>(new Regex(std::move(code)));
}

bool Regex::find(std::string_view text, size_t from, RegexWork& work, Span& match) const {
  RegexWork::State& s = *work.state_;
  if (work.failed()) return false;
  if ((++s.searches & 31) == 0 && processor_seconds() > s.deadline) {
    work.error_ = "the tokenizer's regular expression takes too long on this text";
    return false;
  }
  const auto search = [&](uint32_t options) {
    return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, options | PCRE2_NO_UTF_CHECK, s.data, s.context);
  };
  int rc = search(0);
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT) rc = search(PCRE2_NO_JIT);
  if (rc == PCRE2_ERROR_NOMATCH) return false;
  if (rc < 0) return work.error_ = "the tokenizer's regular expression cannot be run on this text: " + error_text(rc), false;
  const PCRE2_SIZE* v = pcre2_get_ovector_pointer(s.data);
  match = {v[0], v[1]};
  return match.begin <= match.end && match.begin >= from;
}

}  // namespace isotope::text
