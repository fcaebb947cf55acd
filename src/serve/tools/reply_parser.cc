#include "serve/tools/reply_parser.h"

#include <utility>

namespace isotope::serve {
namespace {

// Reasoning stands at the beginning of a reply; a tag further on is text about tags.
Script read_reasoning(Reader& in, std::string_view open, std::string_view close, ReplyPlan::Start start) {
  co_await in.spaces();
  const bool opened = co_await in.literal(open);
  if (!opened && start != ReplyPlan::Start::inside) co_return;
  in.become(Piece::Kind::reasoning);
  const std::string_view closes[] = {close};
  const int closed = co_await in.seek(closes);
  if (closed >= 0) in.become(Piece::Kind::content);
}

}  // namespace

ReplyPlan::Start reply_start(const ReasoningRow& row, std::string_view prompt_end) {
  if (row.whole != nullptr) return ReplyPlan::Start::unknown;
  prompt_end = prompt_end.substr(0, prompt_end.find_last_not_of(" \t\r\n") + 1);
  if (prompt_end.ends_with(row.open)) return ReplyPlan::Start::inside;
  if (prompt_end.ends_with(row.close)) return ReplyPlan::Start::outside;
  return row.inside ? ReplyPlan::Start::inside : ReplyPlan::Start::unknown;
}

ReplyParser::ReplyParser(const ReplyPlan& plan) : plan_(plan) {
  const Toolbox& toolbox = plan_.toolbox ? *plan_.toolbox : no_tools_;
  if (plan_.tools != nullptr && plan_.tools->whole) {
    plan_.reasoning = nullptr;
  } else if (plan_.reasoning != nullptr && plan_.reasoning->whole != nullptr) {
    split_ = true;
    plan_.tools = nullptr;
    reasoning_.run(plan_.reasoning->whole(reasoning_, toolbox));
  } else if (plan_.reasoning != nullptr && plan_.start != ReplyPlan::Start::outside) {
    split_ = true;
    reasoning_.run(read_reasoning(reasoning_, plan_.reasoning->open, plan_.reasoning->close, plan_.start));
  }
  if (plan_.tools == nullptr) return;
  call_ = true;
  tools_.run(plan_.tools->read(tools_, toolbox));
}

std::vector<Piece> ReplyParser::through_tools(std::vector<Piece> pieces, bool last) {
  if (!call_) return chosen(std::move(pieces));
  std::vector<Piece> out;
  const auto take = [&] {
    for (Piece& p : tools_.take()) out.push_back(std::move(p));
  };
  for (Piece& p : pieces) {
    if (p.kind != Piece::Kind::content) {
      out.push_back(std::move(p));
      continue;
    }
    tools_.feed(p.text);
    take();
  }
  if (last) tools_.finish();
  take();
  return chosen(std::move(out));
}

std::vector<Piece> ReplyParser::chosen(std::vector<Piece> pieces) {
  std::vector<Piece> out;
  for (Piece& p : pieces) {
    if (p.kind == Piece::Kind::reasoning && !plan_.show_reasoning) continue;
    if (p.kind == Piece::Kind::call && ++calls_ > 1 && !plan_.parallel) continue;
    out.push_back(std::move(p));
  }
  return out;
}

std::vector<Piece> ReplyParser::feed(std::string_view text) {
  if (!split_) return through_tools({{.text = std::string(text)}}, false);
  reasoning_.feed(text);
  return through_tools(reasoning_.take(), false);
}

std::vector<Piece> ReplyParser::finish() {
  if (split_) reasoning_.finish();
  return through_tools(split_ ? reasoning_.take() : std::vector<Piece>(), true);
}

}  // namespace isotope::serve
