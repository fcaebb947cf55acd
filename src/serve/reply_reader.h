// A choice's text, stretch by stretch, to what an answer shows: content, reasoning, tool calls.
#pragma once

#include <string>
#include <vector>

#include "serve/answer_format.h"
#include "serve/tools/reply_parser.h"

namespace isotope::serve {

class ReplyReader {
 public:
  explicit ReplyReader(const ReplyPlan& plan) : plan_(plan), parser_(plan) {}

  /// The stretch in the parts that a stream sends one after the other: for a call first identifier and name, then the arguments. At least one;
  /// the last carries what is not text.
  std::vector<Delta> stream(Delta);
  /// The choice's whole text at once.
  Delta whole(Delta);

 private:
  std::vector<Piece> read(Delta&);
  std::string id_of(const ToolCall&) const;

  const ReplyPlan& plan_;
  ReplyParser parser_;
  int calls_ = 0;
};

}  // namespace isotope::serve
