// What a reply is made of once its markup has been read.
#pragma once

#include <string>

namespace isotope::serve {

struct ToolCall {
  std::string name;
  std::string arguments;   ///< the text of one valid JSON object
  std::string id;          ///< the model's own; empty: the server makes one
  bool operator==(const ToolCall&) const = default;
};

struct Piece {
  enum class Kind { content, reasoning, call };
  Kind kind = Kind::content;
  std::string text;        ///< of content and reasoning
  ToolCall call;
};

}  // namespace isotope::serve
