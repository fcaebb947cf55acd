// From the text of a reply, in pieces of any size, to content, reasoning and tool calls. The joined result depends on the text alone.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "serve/tools/registry.h"

namespace isotope::serve {

/// How the replies of one request are read.
struct ReplyPlan {
  const ReasoningRow* reasoning = nullptr;
  const ToolRow* tools = nullptr;               ///< null: calls are not looked for
  std::shared_ptr<const Toolbox> toolbox;       ///< set when `tools` is
  enum class Start { unknown, inside, outside } start = Start::unknown;
  bool parallel = true;                         ///< false: only the first call counts
  bool show_reasoning = true;                   ///< false: reasoning is read and left out

  bool active() const { return reasoning != nullptr || tools != nullptr; }
  bool keep_special() const { return (reasoning != nullptr && reasoning->keep_special) || (tools != nullptr && tools->keep_special); }
};

/// Where a reply begins, by the end of its prompt: templates may open the reasoning, or open and close it at once to turn it off.
ReplyPlan::Start reply_start(const ReasoningRow&, std::string_view prompt_end);

class ReplyParser {
 public:
  explicit ReplyParser(const ReplyPlan&);
  ReplyParser(const ReplyParser&) = delete;

  /// What has become certain. Text that may still turn out to be markup is held back; a call comes when it is complete and valid, and text that
  /// looked like a call and is none is content.
  std::vector<Piece> feed(std::string_view text);
  std::vector<Piece> finish();
  int calls() const { return calls_; }

 private:
  std::vector<Piece> through_tools(std::vector<Piece> pieces, bool last);
  std::vector<Piece> chosen(std::vector<Piece> pieces);

  ReplyPlan plan_;
  Toolbox no_tools_;
  bool split_ = false, call_ = false;   ///< which of the readers run
  Reader reasoning_, tools_;
  int calls_ = 0;
};

}  // namespace isotope::serve
