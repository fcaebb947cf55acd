#include "text/decoder.h"

#include <algorithm>
#include <utility>

#include "base/hex_digit.h"
#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace isotope::text {

/// A stage takes tokens in parts: `starts` marks the first part of a token. Parts are whole UTF-8.
class DecodeRun::Stage {
 public:
  virtual ~Stage() = default;
  virtual void put(std::string_view part, bool starts) = 0;
  virtual void finish() { next->finish(); }
  /// Holds nothing back.
  virtual bool idle() const { return true; }
  Stage* next = nullptr;
};

namespace {

using Stage = DecodeRun::Stage;

constexpr size_t kLongestToken = size_t{1} << 20;  // what replacements in a row may make of one token

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  std::string out;
  size_t at = 0;
  for (size_t hit; out.size() < kLongestToken && (hit = text.find(from, at)) != std::string::npos; at = hit + from.size()) out.append(text, at, hit - at).append(to);
  if (at > 0) text = out.append(text, at);
}

/// WordPiece clean-up of the reference, token by token.
void clean_up(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {{" .", "."},     {" ?", "?"},     {" !", "!"},   {" ,", ","},     {" ' ", "'"}, {" n't", "n't"},
                                                                     {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) replace_all(text, from, to);
}

int byte_token(std::string_view t) {
  if (t.size() != 6 || !t.starts_with("<0x") || t[5] != '>') return -1;
  const int high = t[3] == '+' ? 0 : base::hex_digit(t[3]), low = base::hex_digit(t[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string byte_level_bytes(std::string_view token) {
  auto bytes = byte_alphabet::decode(token);
  return bytes ? std::move(*bytes) : std::string(token);
}

class Output final : public Stage {
 public:
  Output(std::string& out, bool join) : out_(out), join_(join) {}
  void put(std::string_view part, bool starts) override {
    if (starts && join_ && !first_) out_ += ' ';
    first_ = false;
    out_ += part;
  }
  void finish() override {}

 private:
  std::string& out_;
  bool join_, first_ = true;
};

/// A stage that needs whole tokens. Behind one that gives parts it waits for the end of the token.
class TokenStage : public Stage {
 public:
  explicit TokenStage(bool parts) : parts_(parts) {}
  void put(std::string_view part, bool starts) final {
    if (!parts_) return token(std::string(part));
    if (starts) flush();
    open_ = true;
    held_ += part;
  }
  void finish() final {
    flush();
    end();
    next->finish();
  }
  bool idle() const final { return !open_ && nothing_held(); }

 protected:
  virtual void token(std::string text) = 0;
  virtual void end() {}
  virtual bool nothing_held() const { return true; }

 private:
  void flush() {
    if (!open_) return;
    open_ = false;
    std::string text;
    text.swap(held_);
    token(std::move(text));
  }
  bool parts_, open_ = false;
  std::string held_;
};

class ByteLevel final : public TokenStage {
 public:
  ByteLevel(bool parts, bool mapped) : TokenStage(parts), mapped_(mapped) {}

 private:
  void token(std::string text) override {
    pending_ += mapped_ ? byte_level_bytes(text) : text;
    std::string out;
    size_t at = 0;
    while (at < pending_.size()) {
      const Utf8Part part = utf8_part(std::string_view(pending_).substr(at));
      if (part.kind == Utf8Part::incomplete) break;
      part.kind == Utf8Part::whole ? out.append(pending_, at, part.length) : out.append(kReplacement);
      at += part.length;
    }
    pending_.erase(0, at);
    emit(out);
  }
  void end() override {
    if (!pending_.empty()) emit(kReplacement);
    pending_.clear();
  }
  bool nothing_held() const override { return pending_.empty(); }
  void emit(std::string_view text) {
    next->put(text, first_);
    first_ = false;
  }
  bool mapped_;
  std::string pending_;
  bool first_ = true;
};

/// Byte tokens, valid characters and invalid parts as they become certain.
class ByteFallback final : public TokenStage {
 public:
  using TokenStage::TokenStage;

 private:
  void token(std::string text) override {
    const int byte = byte_token(text);
    if (byte < 0) {
      end();
      return next->put(text, true);
    }
    pending_ += char(byte);
    while (!pending_.empty()) {
      const Utf8Part part = utf8_part(pending_);
      if (part.kind == Utf8Part::incomplete) return;
      emit(part.kind == Utf8Part::whole ? std::string_view(pending_).substr(0, part.length) : kReplacement);
      pending_.erase(0, part.length);
    }
  }
  void end() override {
    if (!pending_.empty()) emit(kReplacement);
    pending_.clear();
    in_run_ = false;
  }
  bool nothing_held() const override { return pending_.empty(); }
  void emit(std::string_view text) {
    next->put(std::string(text), !in_run_);
    in_run_ = true;
  }
  std::string pending_;
  bool in_run_ = false;
};

class PublishedByteFallback final : public TokenStage {
 public:
  using TokenStage::TokenStage;

 private:
  void token(std::string text) override {
    const int byte = byte_token(text);
    if (byte >= 0) {
      run_ += char(byte);
      return;
    }
    end();
    next->put(text, true);
  }
  void end() override {
    if (run_.empty()) return;
    if (valid_utf8(run_)) {
      next->put(run_, true);
    } else {
      for (size_t i = 0; i < run_.size(); i++) next->put(kReplacement, true);
    }
    run_.clear();
  }
  bool nothing_held() const override { return run_.empty(); }
  std::string run_;
};

class Fuse final : public Stage {
 public:
  void put(std::string_view part, bool) override {
    next->put(part, first_);
    first_ = false;
  }

 private:
  bool first_ = true;
};

class Metaspace final : public Stage {
 public:
  Metaspace(std::string replacement, bool drop_first) : replacement_(std::move(replacement)), drop_first_(drop_first) {}
  void put(std::string_view part, bool starts) override {
    if (starts) index_++;
    std::string text(part);
    replace_all(text, replacement_, index_ == 1 && drop_first_ ? "" : " ");
    next->put(text, starts);
  }

 private:
  std::string replacement_;
  bool drop_first_;
  size_t index_ = 0;
};

/// Cuts up to `start` leading and up to `stop` trailing characters equal to `content` from each token.
class Strip final : public Stage {
 public:
  Strip(std::string content, size_t start, size_t stop) : content_(std::move(content)), start_(start), stop_(stop) {}
  void put(std::string_view part, bool starts) override {
    if (starts) {
      held_ = 0;
      left_ = start_;
      begun_ = false;
    }
    std::string out;
    while (!part.empty()) {
      const std::string_view c = part.substr(0, char_length(part[0]));
      part.remove_prefix(c.size());
      if (left_ > 0 && c == content_) {
        left_--;
      } else if (left_ = 0; c == content_ && stop_ > 0) {
        if (held_ == stop_) out += content_;
        held_ = std::min(held_ + 1, stop_);
      } else {
        release(out);
        out += c;
      }
    }
    next->put(out, !begun_);
    begun_ = true;
  }
  bool idle() const override { return held_ == 0; }

 private:
  void release(std::string& out) {
    for (; held_ > 0; held_--) out += content_;
  }
  std::string content_;
  size_t start_, stop_, left_ = 0, held_ = 0;
  bool begun_ = false;
};

class Replace final : public TokenStage {
 public:
  Replace(bool parts, const DecoderStep& step) : TokenStage(parts), step_(step) {}

 private:
  void token(std::string text) override {
    if (!step_.regex || text.empty()) {
      replace_all(text, step_.literal, step_.content);
      return next->put(text, true);
    }
    std::string out;
    size_t at = 0;
    work_.begin();
    step_.regex->for_each(text, work_, [&](Span s) {
      if (out.size() >= kLongestToken) return;
      out.append(text, at, s.begin - at).append(step_.content);
      at = s.end;
    });
    next->put(out.append(text, at), true);
  }
  const DecoderStep& step_;
  RegexWork work_;
};

class WordPiece final : public TokenStage {
 public:
  WordPiece(bool parts, const DecoderStep& step) : TokenStage(parts), step_(step) {}

 private:
  void token(std::string text) override {
    if (index_++ > 0) {
      if (text.starts_with(step_.content)) {
        text.erase(0, step_.content.size());
      } else {
        text.insert(0, " ");
      }
    }
    if (step_.flag) clean_up(text);
    next->put(text, true);
  }
  const DecoderStep& step_;
  size_t index_ = 0;
};

class Ctc final : public TokenStage {
 public:
  Ctc(bool parts, const DecoderStep& step) : TokenStage(parts), step_(step) {}

 private:
  void token(std::string text) override {
    if (seen_ && text == last_) return;
    seen_ = true;
    last_ = text;
    replace_all(text, step_.content, "");
    if (step_.flag) {
      clean_up(text);
      replace_all(text, step_.literal, " ");
    }
    if (!text.empty()) next->put(text, true);
  }
  const DecoderStep& step_;
  bool seen_ = false;
  std::string last_;
};

/// The suffix is a space, but nothing in the last token: what follows the first suffix of a token waits for the next one.
class BpeSuffix final : public TokenStage {
 public:
  BpeSuffix(bool parts, const DecoderStep& step) : TokenStage(parts), step_(step) {}

 private:
  void token(std::string text) override {
    replace_all(held_, step_.content, " ");
    if (!held_.empty()) next->put(held_, false);
    const size_t at = step_.content.empty() ? std::string::npos : text.find(step_.content);
    held_ = at == std::string::npos ? "" : text.substr(at);
    next->put(std::string_view(text).substr(0, at), true);
  }
  void end() override {
    replace_all(held_, step_.content, "");
    if (!held_.empty()) next->put(held_, false);
    held_.clear();
  }
  bool nothing_held() const override { return held_.empty(); }
  const DecoderStep& step_;
  std::string held_;
};

std::unique_ptr<Stage> make_stage(const DecoderStep& s, InvalidBytes invalid, bool& parts) {
  using Kind = DecoderStep::Kind;
  const bool in_parts = std::exchange(parts, false);
  switch (s.kind) {
    case Kind::bytes: case Kind::byte_level: return parts = true, std::make_unique<ByteLevel>(in_parts, s.kind == Kind::byte_level);
    case Kind::byte_fallback:
      if (invalid == InvalidBytes::as_published) return std::make_unique<PublishedByteFallback>(in_parts);
      return parts = true, std::make_unique<ByteFallback>(in_parts);
    case Kind::fuse: return parts = true, std::make_unique<Fuse>();
    case Kind::metaspace: return parts = in_parts, std::make_unique<Metaspace>(s.content, s.flag);
    case Kind::strip: return parts = in_parts, std::make_unique<Strip>(s.content, s.start, s.stop);
    case Kind::replace: return std::make_unique<Replace>(in_parts, s);
    case Kind::word_piece: return std::make_unique<WordPiece>(in_parts, s);
    case Kind::ctc: return std::make_unique<Ctc>(in_parts, s);
    case Kind::bpe: return parts = true, std::make_unique<BpeSuffix>(in_parts, s);
  }
  return nullptr;
}

}  // namespace

DecodeRun::DecodeRun(const std::vector<DecoderStep>& steps, InvalidBytes invalid) {
  bool parts = false;
  for (const DecoderStep& s : steps) stages_.push_back(make_stage(s, invalid, parts));
  stages_.push_back(std::make_unique<Output>(out_, steps.empty()));
  for (size_t i = 0; i + 1 < stages_.size(); i++) stages_[i]->next = stages_[i + 1].get();
}
DecodeRun::~DecodeRun() = default;

void DecodeRun::put(std::string_view token_text) { stages_[0]->put(token_text, true); }
void DecodeRun::finish() { stages_[0]->finish(); }
bool DecodeRun::idle() const {
  return std::all_of(stages_.begin(), stages_.end(), [](const auto& s) { return s->idle(); });
}
std::string DecodeRun::take() { return std::exchange(out_, {}); }

std::string token_text_bytes(const std::vector<DecoderStep>& steps, std::string_view token) {
  using Kind = DecoderStep::Kind;
  std::string text(token);
  RegexWork work;
  for (const DecoderStep& s : steps) {
    switch (s.kind) {
      case Kind::byte_level: text = byte_level_bytes(text); break;
      case Kind::byte_fallback:
        if (const int b = byte_token(text); b >= 0) return std::string(1, char(b));
        break;
      case Kind::metaspace: replace_all(text, s.content, " "); break;
      case Kind::replace:
        if (!s.regex) replace_all(text, s.literal, s.content);
        break;
      case Kind::word_piece:
        if (text.starts_with(s.content)) {
          text.erase(0, s.content.size());
        } else {
          text.insert(0, " ");
        }
        if (s.flag) clean_up(text);
        break;
      case Kind::bpe: replace_all(text, s.content, " "); break;
      case Kind::bytes: case Kind::fuse: case Kind::strip: case Kind::ctc: break;
    }
  }
  return text;
}

}  // namespace isotope::text
