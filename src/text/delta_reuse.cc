#include "text/delta_reuse.h"

#include <algorithm>
#include <vector>

#include "text/detokenizer.h"

namespace isotope::text {

DeltaReuse& DeltaReuse::process() {
  static DeltaReuse shared;
  return shared;
}

void DeltaReuse::mismatch() {
  mismatches_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (on_.exchange(false) && log_) log_(true, "an audit of the detokenizer found another text than the stream's; streams decode windows of tokens from now on");
}

void DeltaReuse::configure(std::string_view mode, int64_t audit_every, const Tokenizer& tok, std::function<void(bool, const std::string&)> log) {
  const std::lock_guard lock(mutex_);
  log_ = std::move(log);
  audit_every_ = uint64_t(std::max<int64_t>(1, audit_every));
  std::string why = mode == "off" ? "by the setting" : "";
  int64_t compared = 0;
  if (mode == "auto") why = probe_delta_reuse(tok, compared);
  if (mismatches_ > 0) why = "an audit has failed in this process";
  on_ = why.empty();
  if (!log_) return;
  log_(false, on() ? "detokenizer reuse on (" + std::to_string(compared) + " comparisons)" : "detokenizer reuse off: " + why);
}

/// One stream of the probe.
class ReuseProbe {
 public:
  ReuseProbe(const Tokenizer& tok, std::vector<int32_t> ids, bool skip) : tok_(tok), ids_(std::move(ids)), skip_(skip) {}

  /// The text that a stream with this update size gives.
  std::string stream(size_t size, bool reuse, DeltaReuse& state) const {
    state.set(reuse, 1);
    Detokenizer d(tok_, skip_, InvalidBytes::one_per_part, state);
    std::string out;
    for (size_t at = 0; at < ids_.size(); at += size) out += d.add(std::span(ids_).subspan(at, std::min(size, ids_.size() - at)));
    return out + d.finish();
  }
  std::string whole() const { return tok_.decode(ids_, skip_); }

  /// A stream whose reused state was spoiled must be caught by its audit, and give the true text.
  bool catches_spoiling() const {
    DeltaReuse state;
    state.set(true, 1);
    Detokenizer d(tok_, skip_, InvalidBytes::one_per_part, state);
    std::string out;
    for (size_t i = 0; i < ids_.size(); i++) {
      if (i == 1) d.run_.put("Zspoiled");
      out += d.add(ids_[i]);
    }
    return state.stats().mismatches == 1 && !state.on() && out + d.finish() == whole();
  }

 private:
  const Tokenizer& tok_;
  std::vector<int32_t> ids_;
  bool skip_;
};

std::string probe_delta_reuse(const Tokenizer& tok, int64_t& compared) {
  static constexpr const char* kTexts[] = {
      "The quick brown fox jumps over the lazy dog. It's what we've been doing, isn't it?", "今天天气很好，我们一起去公园散步吧。これは日本語のテストです。안녕하세요.",
      "👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️ 😀😃", "∑∫√∞ ≤≥≠ → ← © ™ … — “”", "  a   b\n\n\t c\r\n    d ", "for (int i = 0; i < n; ++i) { a[i] += b[i]; }  // done"};
  constexpr size_t kSizes[] = {1, 2, 3, 5, 8, 17, 64};
  std::vector<std::vector<int32_t>> streams;
  for (const char* text : kTexts) streams.push_back(tok.encode(text, true, false));
  uint64_t state = 88172645463325252ull;
  for (int i = 0; i < 2; i++) {
    auto& ids = streams.emplace_back();
    for (int n = 0; n < 60; n++) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      ids.push_back(int32_t(state % uint64_t(std::max<int64_t>(1, tok.size()))));
    }
  }
  DeltaReuse shared;
  for (const auto& ids : streams) {
    const ReuseProbe probe(tok, ids, true);
    const std::string whole = probe.whole();
    for (const size_t size : kSizes)
      for (const bool reuse : {true, false})
        if (probe.stream(size, reuse, shared) != whole) return "a stream in updates of " + std::to_string(size) + " tokens is not the whole decode";
    compared += whole.empty() ? 0 : int64_t(2 * std::size(kSizes));
  }
  if (shared.stats().mismatches > 0) return "an audit found another text";
  if (compared == 0) return "nothing could be compared";
  if (streams[0].size() > 2 && !ReuseProbe(tok, streams[0], true).catches_spoiling()) return "a spoiled update was not noticed";
  return {};
}

}  // namespace isotope::text
