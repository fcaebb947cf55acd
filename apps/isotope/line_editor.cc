#include "line_editor.h"

#include <histedit.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "interrupt.h"

namespace isotope::app {

struct LineEditor::Impl {
  Interrupt& interrupt;
  std::string history_file, prompt;
  EditLine* edit = nullptr;
  History* history = nullptr;
  HistEvent event{};
};

namespace {

// libedit's own reader retries when a signal comes; this one lets Ctrl-C end the line. UTF-8 is decoded here, whatever the locale is.
int read_char(EditLine* edit, wchar_t* out) {
  void* data = nullptr;
  el_get(edit, EL_CLIENTDATA, &data);
  auto* impl = static_cast<LineEditor::Impl*>(data);
  const auto byte = [impl]() -> int {
    for (;;) {
      pollfd p{STDIN_FILENO, POLLIN, 0};
      if (impl->interrupt.pressed()) return -1;
      if (::poll(&p, 1, 0) <= 0) {
        impl->interrupt.wait(-1, STDIN_FILENO);
        continue;
      }
      unsigned char c = 0;
      return ::read(STDIN_FILENO, &c, 1) == 1 ? c : -1;
    }
  };
  const int first = byte();
  if (first < 0) return 0;
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : first >= 0xC0 ? 1 : 0;
  unsigned code = more == 0 ? unsigned(first) : unsigned(first) & (0x3Fu >> more);
  for (int i = 0; i < more; ++i) {
    const int next = byte();
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
  int count = 0;
  const char* text = el_gets(impl_->edit, &count);
  if (impl_->interrupt.pressed()) {
    el_reset(impl_->edit);
    impl_->interrupt.clear();
    return {End::interrupted, {}};
  }
  if (text == nullptr || count <= 0) return {End::closed, {}};
  std::string line(text, size_t(count));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  if (line.find_first_not_of(" \t") != std::string::npos) history(impl_->history, &impl_->event, H_ENTER, line.c_str());
  return {End::line, std::move(line)};
}

}  // namespace isotope::app
