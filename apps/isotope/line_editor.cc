#include "line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <clocale>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <string_view>
#include <utility>

#include "interrupt.h"

namespace isotope::app {

struct LineEditor::Impl {
  Interrupt& interrupt;
  std::string history_file, prompt;
  EditLine* edit = nullptr;
  History* history = nullptr;
  HistEvent event{};
  std::deque<unsigned char> ahead;  ///< bytes that were looked at and are still to be handed out
  bool pasting = false, announced = false;
  bool terminal = ::isatty(STDERR_FILENO) != 0;
};

namespace {

// Between these a terminal puts what was pasted, once it has been asked to (xterm's bracketed paste, mode 2004). Pasted line ends and tabs must not act as
// keys: the editor gets signs that stand for them, and read() puts them back.
constexpr std::string_view kPasteBegin = "\x1b[200~", kPasteEnd = "\x1b[201~", kPasteOn = "\x1b[?2004h", kPasteOff = "\x1b[?2004l";
constexpr wchar_t kLineSign = 0x2424, kTabSign = 0x2409;
constexpr std::string_view kLineSignText = "\u2424", kTabSignText = "\u2409";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
}

// The next byte; -1 at the end of input, after Ctrl-C, or after `milliseconds` (-1: no limit).
int next_byte(LineEditor::Impl& impl, int milliseconds) {
  for (;;) {
    pollfd p{STDIN_FILENO, POLLIN, 0};
    if (impl.interrupt.pressed()) return -1;
    if (::poll(&p, 1, milliseconds < 0 ? 0 : milliseconds) <= 0) {
      if (milliseconds >= 0) return -1;
      impl.interrupt.wait(-1, STDIN_FILENO);
      continue;
    }
    unsigned char c = 0;
    return ::read(STDIN_FILENO, &c, 1) == 1 ? c : -1;
  }
}

void tell(const LineEditor::Impl& impl, std::string_view words) {
  if (impl.terminal) (void)!::write(STDERR_FILENO, words.data(), words.size());
}

// Whether the escape character that was just read begins `mark`; if not, what was read stays to be handed out.
bool follows(LineEditor::Impl& impl, std::string_view mark) {
  constexpr int kWithinOneSequence = 50;
  for (size_t i = 1; i < mark.size(); ++i) {
    while (impl.ahead.size() < i) {
      const int c = next_byte(impl, kWithinOneSequence);
      if (c < 0) return false;
      impl.ahead.push_back(static_cast<unsigned char>(c));
    }
    if (impl.ahead[i - 1] != static_cast<unsigned char>(mark[i])) return false;
  }
  impl.ahead.erase(impl.ahead.begin(), impl.ahead.begin() + std::ptrdiff_t(mark.size() - 1));
  return true;
}

int take_byte(LineEditor::Impl& impl) {
  if (impl.ahead.empty()) return next_byte(impl, -1);
  const int c = impl.ahead.front();
  impl.ahead.pop_front();
  return c;
}

// A byte with the marks of pasting taken out.
int unmarked_byte(LineEditor::Impl& impl) {
  for (;;) {
    const int c = take_byte(impl);
    if (c != 0x1b || !follows(impl, impl.pasting ? kPasteEnd : kPasteBegin)) return c;
    impl.pasting = !impl.pasting;
  }
}

// What a pasted control character stands for in the line; 0: nothing.
wchar_t pasted(LineEditor::Impl& impl, int c) {
  if (c == '\t') return kTabSign;
  if (c != '\r' && c != '\n') return 0;
  if (c == '\r') {
    if (const int next = impl.ahead.empty() ? next_byte(impl, 0) : take_byte(impl); next >= 0 && next != '\n') impl.ahead.push_front(static_cast<unsigned char>(next));
  }
  return kLineSign;
}

// libedit's own reader retries when a signal comes; this one lets Ctrl-C end the line. UTF-8 is decoded here, whatever the locale is.
int read_char(EditLine* edit, wchar_t* out) {
  void* data = nullptr;
  el_get(edit, EL_CLIENTDATA, &data);
  auto* impl = static_cast<LineEditor::Impl*>(data);
  if (!std::exchange(impl->announced, true)) tell(*impl, kPasteOn);  // now the prompt is out, and the terminal is the editor's
  int first = unmarked_byte(*impl);
  while (impl->pasting && first >= 0 && (first < 0x20 || first == 0x7f)) {
    if (const wchar_t sign = pasted(*impl, first); sign != 0) return *out = sign, 1;
    first = unmarked_byte(*impl);
  }
  if (first < 0) return 0;
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : first >= 0xC0 ? 1 : 0;
  unsigned code = more == 0 ? unsigned(first) : unsigned(first) & (0x3Fu >> more);
  for (int i = 0; i < more; ++i) {
    const int next = take_byte(*impl);
    if (next < 0) return 0;
    code = code << 6 | (unsigned(next) & 0x3F);
  }
  *out = wchar_t(code);
  return 1;
}

const char* prompt_of(EditLine* edit) {
  void* data = nullptr;
  el_get(edit, EL_CLIENTDATA, &data);
  return static_cast<LineEditor::Impl*>(data)->prompt.c_str();
}

}  // namespace

LineEditor::LineEditor(Interrupt& interrupt, std::string history_file) : impl_(new Impl{interrupt, std::move(history_file), {}}) {
  // The editor needs to know that characters may have several bytes.
  if (std::setlocale(LC_CTYPE, "") == nullptr || std::string_view(std::setlocale(LC_CTYPE, nullptr)) == "C") std::setlocale(LC_CTYPE, "C.UTF-8");
  impl_->history = history_init();
  history(impl_->history, &impl_->event, H_SETSIZE, 1000);
  history(impl_->history, &impl_->event, H_SETUNIQUE, 1);
  if (!impl_->history_file.empty()) {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(impl_->history_file).parent_path(), ignored);
    history(impl_->history, &impl_->event, H_LOAD, impl_->history_file.c_str());
  }
  impl_->edit = el_init("isotope", stdin, stderr, stderr);
  el_set(impl_->edit, EL_CLIENTDATA, impl_.get());
  el_set(impl_->edit, EL_PROMPT, prompt_of);
  el_set(impl_->edit, EL_EDITOR, "emacs");
  el_set(impl_->edit, EL_HIST, history, impl_->history);
  el_set(impl_->edit, EL_GETCFN, read_char);
  el_set(impl_->edit, EL_SIGNAL, 0);
  el_set(impl_->edit, EL_BIND, "^R", "em-inc-search-prev", nullptr);
}

LineEditor::~LineEditor() {
  if (!impl_->history_file.empty()) {
    history(impl_->history, &impl_->event, H_SAVE, impl_->history_file.c_str());
    ::chmod(impl_->history_file.c_str(), S_IRUSR | S_IWUSR);
  }
  el_end(impl_->edit);
  history_end(impl_->history);
}

LineEditor::Line LineEditor::read(const std::string& prompt) {
  impl_->interrupt.clear();
  impl_->prompt = prompt;
  impl_->pasting = false;
  impl_->ahead.clear();
  int count = 0;
  impl_->announced = false;
  const char* text = el_gets(impl_->edit, &count);
  if (impl_->announced) tell(*impl_, kPasteOff);
  if (impl_->interrupt.pressed()) {
    el_reset(impl_->edit);
    impl_->interrupt.clear();
    return {End::interrupted, {}};
  }
  if (text == nullptr || count <= 0) return {End::closed, {}};
  std::string line(text, size_t(count));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  if (line.find_first_not_of(" \t") != std::string::npos) history(impl_->history, &impl_->event, H_ENTER, line.c_str());
  replace_all(line, kLineSignText, "\n");
  replace_all(line, kTabSignText, "\t");
  return {End::line, std::move(line)};
}

}  // namespace isotope::app
