// Stands in until the text layer has its detokenizer.
#include "text/detokenizer.h"

namespace isotope::text {
namespace {
std::string clean(std::string& held, bool final) {
  std::string out;
  size_t i = 0;
  while (i < held.size()) {
    unsigned char c = (unsigned char)held[i];
    size_t n = c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
    if (n == 0) { out += "\xEF\xBF\xBD"; ++i; continue; }
    size_t k = 1;
    while (k < n && i + k < held.size() && (held[i + k] & 0xC0) == 0x80) ++k;
    if (k == n) { out += held.substr(i, n); i += n; continue; }
    if (i + k == held.size() && !final) break;
    out += "\xEF\xBF\xBD"; i += k;
  }
  held.erase(0, i);
  return out;
}
}
Detokenizer::Detokenizer(const Tokenizer& t, bool s) : tok_(&t), skip_special_(s) {}
void Detokenizer::prime(std::span<const int32_t>) {}
std::string Detokenizer::add(int32_t token) {
  if (skip_special_ && tok_->is_special(token)) return {};
  std::string held(window_.begin(), window_.end());
  held += tok_->token_bytes(token);
  std::string out = clean(held, false);
  window_.assign(held.begin(), held.end());
  return out;
}
std::string Detokenizer::finish() {
  std::string held(window_.begin(), window_.end());
  window_.clear();
  return clean(held, true);
}
StopMatcher::StopMatcher(std::vector<std::string> s, bool i) : stops_(std::move(s)), include_(i) {}
std::string StopMatcher::add(std::string_view text) {
  if (found_ >= 0) return {};
  held_ += text;
  size_t best = std::string::npos;
  for (size_t i = 0; i < stops_.size(); ++i) {
    size_t at = held_.find(stops_[i]);
    if (at < best) best = at, found_ = int(i);
  }
  if (found_ >= 0) {
    std::string out = held_.substr(0, best + (include_ ? stops_[size_t(found_)].size() : 0));
    held_.clear();
    return out;
  }
  size_t keep = 0;
  for (auto& s : stops_)
    for (size_t k = std::min(s.size() - 1, held_.size()); k > keep; --k)
      if (held_.ends_with(s.substr(0, k))) keep = k;
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}
std::string StopMatcher::finish() { return std::exchange(held_, {}); }

}  // namespace isotope::text
