// The request fields that say which tools a model may call and how its reply is read.
#pragma once

#include "serve/fields.h"
#include "serve/frontend.h"
#include "serve/tools/reply_parser.h"

namespace isotope::serve {

/// The checked `tools` as the chat template gets them; null without any or when `tool_choice` is "none": then the model does not learn of them.
Result<Json> parse_tools(const Fields&);
/// How the reply to a chat request with these tools is read. `prompt` is what the model will continue.
Result<ReplyPlan> parse_reply_plan(const Fields&, const Frontend&, const ChatInput&, const std::vector<int32_t>& prompt);

}  // namespace isotope::serve
