// The texts around reasoning and tool calls, for grammars that keep a model to them. Formats are xgrammar's structural tags.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/tools/reply_parser.h"

namespace isotope::serve {

/// Texts whose control tokens a grammar may ask for: the parsers' markup; either may be null.
std::vector<std::string> markup_of(const ToolRow*, const ReasoningRow*);

/// A format for the reasoning that may or must come before the answer; null for none.
nlohmann::ordered_json reasoning_prefix(const ReplyPlan&);

struct CallChoice {
  nlohmann::ordered_json tools;   ///< OpenAI's array, the schemas checked
  bool parallel = true;           ///< more than one call
  bool optional = false;          ///< text instead of calls, or around them, is an answer, too
};
/// A format for calls of these tools as the parser's models write them; null where this is not known for the parser.
nlohmann::ordered_json call_format(const ToolRow&, const CallChoice&);

}  // namespace isotope::serve
