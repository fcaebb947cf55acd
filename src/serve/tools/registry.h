// The parsers by name, and which one a model needs: its chat template shows the markup that it was trained to write.
#pragma once

#include <string>
#include <string_view>

#include "isotope/result.h"
#include "serve/tools/formats.h"

namespace isotope::serve {

struct ToolRow {
  const char* name;                                ///< as vLLM spells it
  Script (*read)(Reader&, const Toolbox&);
  bool keep_special = false;                       ///< the markup is made of special tokens, so the text must show them
  bool whole = false;                              ///< reads reasoning too
  size_t id_length = 0;                            ///< identifiers of exactly so many characters; 0: "call_…"
};

struct ReasoningRow {
  const char* name;
  std::string_view open, close;
  bool inside = false;                             ///< the reply begins within the reasoning, whether or not the prompt shows the opening tag
  bool keep_special = false;
  Script (*whole)(Reader&, const Toolbox&) = nullptr;   ///< reads all of the reply instead of looking for tags
};

/// "" takes what the template (source text; may be empty) shows, null when it shows none; "none" is null; else the parser of that name, or an
/// error that lists all names.
Result<const ToolRow*> find_tool_parser(const std::string& name, std::string_view chat_template);
Result<const ReasoningRow*> find_reasoning_parser(const std::string& name, std::string_view chat_template);
std::string tool_parser_names();
std::string reasoning_parser_names();

}  // namespace isotope::serve
