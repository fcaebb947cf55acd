#include "serve/reply_reader.h"

#include <utility>

namespace isotope::serve {

std::vector<Piece> ReplyReader::read(Delta& d) {
  std::vector<Piece> pieces = parser_.feed(std::exchange(d.text, {}));
  if (d.finished != nullptr) {
    for (Piece& p : parser_.finish()) pieces.push_back(std::move(p));
  }
  d.called = parser_.calls() > 0;
  return pieces;
}

std::string ReplyReader::id_of(const ToolCall& call) const {
  const size_t exactly = plan_.tools != nullptr ? plan_.tools->id_length : 0;
  if (!call.id.empty() && (exactly == 0 || call.id.size() == exactly)) return call.id;
  return exactly > 0 ? random_id().substr(0, exactly) : "call_" + random_id().substr(0, 24);
}

std::vector<Delta> ReplyReader::stream(Delta d) {
  std::vector<Delta> out;
  const auto part = [&]() -> Delta& {
    out.push_back({.index = d.index, .first = std::exchange(d.first, false)});
    return out.back();
  };
  for (Piece& p : read(d)) {
    if (p.kind == Piece::Kind::content) {
      part().text = std::move(p.text);
    } else if (p.kind == Piece::Kind::reasoning) {
      part().reasoning = std::move(p.text);
    } else {
      const int index = calls_++;
      part().tool_calls = Json::array({{{"index", index}, {"id", id_of(p.call)}, {"type", "function"}, {"function", {{"name", p.call.name}, {"arguments", ""}}}}});
      part().tool_calls = Json::array({{{"index", index}, {"function", {{"arguments", p.call.arguments}}}}});
    }
  }
  if (out.empty()) {
    out.push_back(std::move(d));
    return out;
  }
  // What is not text goes with the last part.
  d.first = out.back().first;
  d.text = std::move(out.back().text);
  d.reasoning = std::move(out.back().reasoning);
  d.tool_calls = std::move(out.back().tool_calls);
  out.back() = std::move(d);
  return out;
}

Delta ReplyReader::whole(Delta d) {
  for (Piece& p : read(d)) {
    if (p.kind == Piece::Kind::content) {
      d.text += p.text;
    } else if (p.kind == Piece::Kind::reasoning) {
      d.reasoning += p.text;
    } else {
      d.tool_calls.push_back({{"id", id_of(p.call)}, {"type", "function"}, {"function", {{"name", p.call.name}, {"arguments", p.call.arguments}}}});
    }
  }
  return d;
}

}  // namespace isotope::serve
