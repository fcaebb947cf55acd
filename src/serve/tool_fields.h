// The request fields that say which tools a model may call and how its reply is read.
#pragma once

#include <string>
#include <vector>

#include "serve/call.h"
#include "serve/fields.h"
#include "serve/frontend.h"
#include "serve/tools/reply_parser.h"

namespace isotope::serve {

/// The checked `tools` as the chat template gets them; null without any or when `tool_choice` is "none": then the model does not learn of them.
Result<Json> parse_tools(const Fields&);
/// What `tool_choice` asks for.
struct ToolChoice {
  enum class Mode { automatic, none, required } mode = Mode::automatic;
  std::vector<std::string> only;   ///< names that may be called; empty: all
};
Result<ToolChoice> parse_tool_choice(const Fields&);
/// Sets call.form where calls are forced, or where tools are strict. `tools`: what parse_tools() gave.
Result<void> add_call_form(const Fields&, const Frontend&, const Json& tools, Call&);
/// How the reply to a chat request with these tools is read. `prompt` is what the model will continue.
Result<ReplyPlan> parse_reply_plan(const Fields&, const Frontend&, const ChatInput&, const std::vector<int32_t>& prompt);

}  // namespace isotope::serve
