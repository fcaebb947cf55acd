// The ground on which parsers of replies stand. A parser is a coroutine that reads as if the whole text were there; where more text is needed it waits.
// Each decision depends on the text alone, never on how it was cut, and each byte is looked at a bounded number of times.
//
//   while (co_await in.seek(kOpen) >= 0) {           // text before the marker is content
//     const auto body = co_await in.json();
//     if (body && co_await in.literal(kClose)) in.call(…);
//   }                                                // what was read since the marker and made no call is content too
//
// g++ 12 destroys a value twice that is awaited within the braces of an initializer: give awaited values a variable of their own.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/tools/json_scan.h"
#include "serve/tools/piece.h"

namespace isotope::serve {

/// A parser's coroutine.
class Script {
 public:
  struct promise_type {
    Script get_return_object() { return Script(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  Script() = default;
  explicit Script(std::coroutine_handle<promise_type> h) : handle_(h) {}
  Script(Script&& o) noexcept : handle_(std::exchange(o.handle_, nullptr)) {}
  Script& operator=(Script&& o) noexcept {
    std::swap(handle_, o.handle_);
    return *this;
  }
  ~Script() {
    if (handle_) handle_.destroy();
  }
  bool done() const { return !handle_ || handle_.done(); }
  void resume() { handle_.resume(); }

 private:
  std::coroutine_handle<promise_type> handle_;
};

using Words = std::span<const std::string_view>;

class Reader {
 public:
  /// What a script waits for.
  class Goal {
   public:
    explicit Goal(Reader& r) : in_(r) {}
    Goal(const Goal&) = delete;
    bool await_ready() { return advance(); }
    void await_suspend(std::coroutine_handle<>) { in_.goal_ = this; }
    /// True when decided; always true once the text has ended.
    virtual bool advance() = 0;

   protected:
    ~Goal() = default;
    Reader& in_;
    size_t seen_ = 0;   ///< bytes behind the position that need no second look
  };

  /// Writes text until one of the markers (none the beginning of another) and steps over it: its index, or -1 at the end.
  struct Seek final : Goal {
    Seek(Reader& r, Words w) : Goal(r), words(w) { in_.keep(); }
    bool advance() override;
    int await_resume() const { return found; }
    Words words;
    int found = -1;
  };
  /// Steps over white space.
  struct Spaces final : Goal {
    using Goal::Goal;
    bool advance() override;
    void await_resume() const {}
  };
  /// Steps over the first of the words that stands here: its index, or -1, and then nothing is stepped over.
  struct OneOf final : Goal {
    OneOf(Reader& r, Words w) : Goal(r), words(w) {}
    bool advance() override;
    int await_resume() const { return found; }
    Words words;
    int found = -1;
  };
  struct Literal final : Goal {
    Literal(Reader& r, std::string_view w) : Goal(r), word(w) {}
    bool advance() override;
    bool await_resume() const { return found; }
    std::string_view word;
    bool found = false;
  };
  struct Stretch {
    std::string text;
    int which = -1;   ///< the word that ended it, or -1: the text ended first
    explicit operator bool() const { return which >= 0; }
  };
  /// The text before the nearest of the words, and steps over that.
  struct Until final : Goal {
    Until(Reader& r, Words w) : Goal(r), words(w) {}
    bool advance() override;
    Stretch await_resume() { return std::move(result); }
    Words words;
    Stretch result;
  };
  /// One JSON object or array.
  struct Value final : Goal {
    using Goal::Goal;
    bool advance() override;
    std::optional<std::string> await_resume() { return std::move(result); }
    JsonScanner scan;
    std::optional<std::string> result;
  };
  /// A bracketed Python expression, brackets within strings not counted.
  struct Brackets final : Goal {
    using Goal::Goal;
    bool advance() override;
    std::optional<std::string> await_resume() { return std::move(result); }
    std::string open;
    char quote = 0;
    bool escape = false;
    std::optional<std::string> result;
  };
  /// The longest run of letters, digits and "_-.:" here; may be empty.
  struct Name final : Goal {
    using Goal::Goal;
    bool advance() override;
    std::string await_resume() { return std::move(result); }
    std::string result;
  };

  Seek seek(Words words) { return Seek(*this, words); }
  Spaces spaces() { return Spaces(*this); }
  OneOf one_of(Words words) { return OneOf(*this, words); }
  Literal literal(std::string_view word) { return Literal(*this, word); }
  Until until(Words words) { return Until(*this, words); }
  Value json() { return Value(*this); }
  Brackets brackets() { return Brackets(*this); }
  Name name() { return Name(*this); }

  /// The text has ended and all of it was read.
  bool at_end() const { return final_ && pos_ == buffer_.size(); }
  /// What was read and is not decided becomes text.
  void keep();
  /// What was read and is not decided was markup.
  void drop() { mark_ = pos_; }
  /// What was read and is not decided was a call. White space around calls is no content.
  void call(ToolCall);
  /// From here on text is of this kind; white space between the kinds belongs to neither.
  void become(Piece::Kind);

  /// Not for scripts. The script must be set before, and refers to this.
  void run(Script script);
  void feed(std::string_view text);
  void finish();
  std::vector<Piece> take() { return std::exchange(out_, {}); }

 private:
  std::string_view rest() const { return std::string_view(buffer_).substr(pos_); }
  void pump();
  void write(std::string_view text);
  void push(std::string_view text);

  std::string buffer_, space_;
  size_t mark_ = 0, pos_ = 0;   ///< where undecided text begins; how far the script has read
  bool final_ = false, skip_space_ = false;
  Piece::Kind kind_ = Piece::Kind::content;
  Goal* goal_ = nullptr;
  Script script_;
  std::vector<Piece> out_;
};

}  // namespace isotope::serve
