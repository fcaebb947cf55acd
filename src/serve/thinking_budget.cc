#include "serve/thinking_budget.h"

#include <algorithm>
#include <utility>

#include "serve/tools/registry.h"

namespace isotope::serve {
namespace {

/// What the reasoning stands between, and the ids that close it.
struct Limit {
  int64_t tokens = 0;
  ReplyPlan::Start start = ReplyPlan::Start::unknown;
  std::string open, close;
  std::vector<int32_t> closing, closing_at_line;   ///< from within a line; at the beginning of one
  const text::Tokenizer* tokenizer = nullptr;
};

/// One sequence: counts the tokens between the marks, however tokens and marks are cut.
class BudgetMask final : public TokenMask {
 public:
  BudgetMask(std::shared_ptr<const Limit> limit, std::unique_ptr<TokenMask> inner) : limit_(std::move(limit)), inner_(std::move(inner)) {
    if (limit_->start == ReplyPlan::Start::inside) begin();
  }

  bool fill(std::span<uint32_t> bits) override {
    const bool masked = inner_ && inner_->fill(bits);
    if (now_.phase != Phase::closing) return masked;
    const auto token = uint32_t(closing()[now_.next]);
    if (token / 32 >= bits.size() || (masked && (bits[token / 32] >> (token % 32) & 1) == 0)) return masked;   // the form says otherwise
    std::fill(bits.begin(), bits.end(), 0u);
    bits[token / 32] = uint32_t{1} << (token % 32);
    return true;
  }

  bool accept(int32_t token) override {
    if (inner_ && !inner_->accept(token)) return false;
    before_.push_back(now_);
    advance(token);
    return true;
  }

  bool finished() const override { return inner_ && inner_->finished(); }

  void rollback(int n) override {
    if (inner_) inner_->rollback(n);
    for (; n > 0 && !before_.empty(); --n) {
      now_ = std::move(before_.back());
      before_.pop_back();
    }
  }

  std::string_view problem() const override { return inner_ ? inner_->problem() : std::string_view(); }

 private:
  enum class Phase { before, thinking, closing, done };
  struct State {
    Phase phase = Phase::before;
    bool at_line = false;     ///< the reasoning stands at the beginning of a line
    int64_t used = 0;
    size_t next = 0;          ///< of the closing ids
    std::string text;         ///< before: all there is; thinking: what may be the beginning of the closing mark
  };

  const std::vector<int32_t>& closing() const { return now_.at_line ? limit_->closing_at_line : limit_->closing; }

  void begin() {
    now_.phase = Phase::thinking;
    now_.text.clear();
    now_.at_line = true;   // templates put a line end behind the mark, or none is wanted
    spend();
  }
  void spend() {
    if (now_.used >= limit_->tokens) now_.phase = Phase::closing;
  }

  void advance(int32_t token) {
    if (now_.phase == Phase::closing) {
      const bool as_told = token == closing()[now_.next];
      if (!as_told || ++now_.next == closing().size()) end();
    } else if (now_.phase == Phase::before) {
      now_.text += limit_->tokenizer->token_bytes(token);
      look_for_opening();
    } else if (now_.phase == Phase::thinking) {
      think(token);
    }
  }

  // Reasoning stands at the beginning of a reply.
  void look_for_opening() {
    const size_t first = now_.text.find_first_not_of(" \t\r\n");
    if (first == std::string::npos) return;
    const std::string_view seen = std::string_view(now_.text).substr(first);
    if (seen.starts_with(limit_->open)) return begin();
    if (!std::string_view(limit_->open).starts_with(seen)) end();
  }

  void think(int32_t token) {
    now_.text += limit_->tokenizer->token_bytes(token);
    if (now_.text.find(limit_->close) != std::string::npos) return end();
    if (!now_.text.empty()) now_.at_line = now_.text.back() == '\n';
    const size_t keep = std::min(now_.text.size(), limit_->close.size() - 1);
    now_.text.erase(0, now_.text.size() - keep);
    ++now_.used;
    spend();
  }

  void end() {
    now_.phase = Phase::done;
    now_.text.clear();
  }

  std::shared_ptr<const Limit> limit_;
  std::unique_ptr<TokenMask> inner_;
  State now_;
  std::vector<State> before_;
};

class Budget final : public text::Grammar {
 public:
  Budget(std::shared_ptr<const Limit> limit, std::shared_ptr<const text::Grammar> inner) : limit_(std::move(limit)), inner_(std::move(inner)) {}
  std::unique_ptr<TokenMask> mask() const override { return std::make_unique<BudgetMask>(limit_, inner_ ? inner_->mask() : nullptr); }

 private:
  std::shared_ptr<const Limit> limit_;
  std::shared_ptr<const text::Grammar> inner_;
};

// Channels of gpt-oss: the analysis ends its message, and the final one begins.
constexpr std::string_view kAnalysis = "<|channel|>analysis<|message|>", kAnalysisEnd = "<|end|>", kFinal = "<|end|><|start|>assistant<|channel|>final<|message|>";

}  // namespace

Result<void> limit_thinking(const Fields& f, const Frontend& front, Call& call) {
  ISO_TRY(const auto asked, f.integer("thinking_token_budget", -1, INT64_MAX));
  const int64_t tokens = asked.value_or(front.thinking_budget());
  if (tokens < 0) return {};
  const ReasoningRow* row = call.reply.reasoning;
  const bool channels = (row != nullptr && row->whole != nullptr) || (call.reply.tools != nullptr && call.reply.tools->whole);
  if (row == nullptr && !channels) {
    if (!asked) return {};
    return tl::unexpected(field_error("thinking_token_budget", "it is not known how this model marks its reasoning", "leave it out, or start the server with --reasoning-parser", Code::unsupported));
  }
  if (!channels && call.reply.start == ReplyPlan::Start::outside) return {};
  Limit limit;
  limit.tokens = tokens;
  limit.tokenizer = &front.tokenizer();
  limit.start = channels ? ReplyPlan::Start::unknown : call.reply.start;
  limit.open = channels ? kAnalysis : row->open;
  limit.close = channels ? kAnalysisEnd : row->close;
  const std::string last(channels ? kFinal : row->close);
  limit.closing_at_line = front.text_ids(last, false, true);
  limit.closing = channels ? limit.closing_at_line : front.text_ids("\n" + last, false, true);
  if (limit.closing.empty() || limit.closing_at_line.empty()) return {};
  call.spec.grammar = std::make_shared<Budget>(std::make_shared<const Limit>(std::move(limit)), std::move(call.spec.grammar));
  return {};
}

}  // namespace isotope::serve
