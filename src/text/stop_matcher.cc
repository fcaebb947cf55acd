#include <algorithm>

#include "text/detokenizer.h"

namespace isotope::text {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop) : stops_(std::move(stops)), include_(include_stop) {
  std::erase_if(stops_, [](const std::string& s) { return s.empty(); });
}

std::string StopMatcher::add(std::string_view text) {
  if (stopped() || stops_.empty()) return stopped() ? std::string() : std::string(text);
  const size_t old = held_.size();
  held_ += text;
  // Which stop string is complete first? The one whose end comes first ends the text: what follows it has not been generated yet when it is found, so
  // the result cannot depend on how the text was cut. Of those that end together the one that starts first.
  size_t best_begin = std::string::npos, best_end = std::string::npos;
  for (size_t i = 0; i < stops_.size(); i++) {
    const std::string& s = stops_[i];
    const size_t at = held_.find(s, old > s.size() - 1 ? old - (s.size() - 1) : 0);
    if (at == std::string::npos) continue;
    const size_t end = at + s.size();
    if (end < best_end || (end == best_end && at < best_begin)) best_begin = at, best_end = end, found_ = int(i);
  }
  if (stopped()) {
    std::string out = held_.substr(0, include_ ? best_end : best_begin);
    held_.clear();
    return out;
  }
  // Hold the longest tail that begins a stop string.
  size_t hold = 0;
  for (const std::string& s : stops_) {
    for (size_t n = std::min(s.size() - 1, held_.size()); n > hold; n--) {
      if (std::string_view(held_).substr(held_.size() - n) == std::string_view(s).substr(0, n)) hold = n;
    }
  }
  std::string out = held_.substr(0, held_.size() - hold);
  held_.erase(0, out.size());
  return out;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

}  // namespace isotope::text
