#include "serve/tools/reader.h"

#include <algorithm>

namespace isotope::serve {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == ':';
}

size_t longest(Words words) {
  size_t n = 0;
  for (const auto w : words) n = std::max(n, w.size());
  return n;
}

}  // namespace

bool Reader::Seek::advance() {
  const std::string_view text = in_.rest();
  for (size_t i = 0; i < text.size(); ++i) {
    bool open = false;
    for (size_t w = 0; w < words.size(); ++w) {
      const std::string_view here = text.substr(i, words[w].size());
      if (here == words[w]) {
        in_.pos_ += i;
        in_.keep();
        in_.pos_ += words[w].size();
        found = int(w);
        return true;
      }
      open |= words[w].starts_with(here);
    }
    if (!open || in_.final_) continue;
    in_.pos_ += i;  // what follows may become a marker
    in_.keep();
    return false;
  }
  in_.pos_ = in_.buffer_.size();
  in_.keep();
  return in_.final_;
}

bool Reader::Spaces::advance() {
  const size_t at = in_.rest().find_first_not_of(kSpace);
  in_.pos_ = at == std::string_view::npos ? in_.buffer_.size() : in_.pos_ + at;
  return at != std::string_view::npos || in_.final_;
}

bool Reader::OneOf::advance() {
  const std::string_view text = in_.rest();
  for (size_t w = 0; w < words.size(); ++w) {
    if (text.starts_with(words[w])) {
      in_.pos_ += words[w].size();
      found = int(w);
      return true;
    }
    if (!in_.final_ && words[w].starts_with(text)) return false;
  }
  return true;
}

bool Reader::Literal::advance() {
  const std::string_view text = in_.rest();
  found = text.starts_with(word);
  if (found) in_.pos_ += word.size();
  return found || in_.final_ || !word.starts_with(text);
}

bool Reader::Until::advance() {
  const std::string_view text = in_.rest();
  size_t at = std::string_view::npos;
  for (size_t w = 0; w < words.size(); ++w) {
    const size_t here = text.find(words[w], seen_);
    if (here >= at) continue;
    at = here;
    result.which = int(w);
  }
  if (at != std::string_view::npos) {
    result.text = text.substr(0, at);
    in_.pos_ += at + words[size_t(result.which)].size();
    return true;
  }
  seen_ = text.size() - std::min(text.size(), longest(words) - 1);
  if (in_.final_) in_.pos_ = in_.buffer_.size();
  return in_.final_;
}

bool Reader::Value::advance() {
  const std::string_view text = in_.rest();
  for (; seen_ < text.size(); ++seen_) {
    const Scan s = scan.push(text[seen_]);
    if (s == Scan::more) continue;
    if (s == Scan::done) result = text.substr(0, seen_ + 1);
    in_.pos_ += seen_ + (s == Scan::done ? 1 : 0);
    return true;
  }
  if (in_.final_) in_.pos_ = in_.buffer_.size();
  return in_.final_;
}

bool Reader::Brackets::advance() {
  const std::string_view text = in_.rest();
  for (; seen_ < text.size(); ++seen_) {
    const char c = text[seen_];
    if (escape) {
      escape = false;
    } else if (quote != 0) {
      escape = c == '\\';
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
      if (open.size() > kMaxCallDepth) break;
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) break;
      open.pop_back();
      if (!open.empty()) continue;
      result = text.substr(0, seen_ + 1);
      in_.pos_ += seen_ + 1;
      return true;
    }
    if (open.empty()) break;
  }
  if (seen_ < text.size() || in_.final_) {
    in_.pos_ += seen_;
    return true;
  }
  return false;
}

bool Reader::Name::advance() {
  const std::string_view text = in_.rest();
  while (seen_ < text.size() && is_name(text[seen_])) ++seen_;
  if (seen_ == text.size() && !in_.final_) return false;
  result = text.substr(0, seen_);
  in_.pos_ += seen_;
  return true;
}

void Reader::keep() {
  write(std::string_view(buffer_).substr(mark_, pos_ - mark_));
  mark_ = pos_;
}

void Reader::call(ToolCall c) {
  drop();
  space_.clear();
  skip_space_ = true;
  out_.push_back({.kind = Piece::Kind::call, .call = std::move(c)});
}

void Reader::become(Piece::Kind kind) {
  drop();
  space_.clear();
  skip_space_ = true;
  kind_ = kind;
}

// White space at the end waits: a call may follow.
void Reader::write(std::string_view text) {
  if (skip_space_) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(kSpace)));
    if (text.empty()) return;
    skip_space_ = false;
  }
  const size_t end = text.find_last_not_of(kSpace) + 1;
  if (end > 0) {
    push(std::exchange(space_, {}));
    push(text.substr(0, end));
  }
  space_ += text.substr(end);
}

void Reader::push(std::string_view text) {
  if (text.empty()) return;
  if (out_.empty() || out_.back().kind != kind_) out_.push_back({.kind = kind_});
  out_.back().text += text;
}

void Reader::run(Script script) {
  script_ = std::move(script);
  script_.resume();
}

void Reader::pump() {
  while (goal_ != nullptr && goal_->advance()) {
    goal_ = nullptr;
    script_.resume();
  }
  if (!script_.done()) return;
  pos_ = buffer_.size();
  keep();
}

void Reader::feed(std::string_view text) {
  buffer_.erase(0, mark_);
  pos_ -= mark_;
  mark_ = 0;
  buffer_ += text;
  pump();
}

void Reader::finish() {
  final_ = true;
  pump();
  push(std::exchange(space_, {}));
}

}  // namespace isotope::serve
