#include "engine/journal.h"

#include <algorithm>
#include <charconv>

#include "engine/clock.h"

namespace isotope::engine {

namespace {

/// Chunks and stored states each have their own place; of the others a repetition adds nothing but its number.
bool repeats(const Decision& a, const Decision& b) {
  return a.kind == b.kind && a.reason == b.reason && a.kind != Decision::Kind::chunk && a.kind != Decision::Kind::admitted &&
         a.kind != Decision::Kind::stored;
}

bool label_matches(std::string_view label, std::string_view name) {
  if (label == name) return true;
  // The client's own X-Request-Id stands behind the kind of call: "chatcmpl-" or "cmpl-".
  const size_t dash = label.find('-');
  return dash != std::string_view::npos && label.substr(dash + 1) == name;
}

}  // namespace

Journal::Journal(uint64_t id, std::string label, int rank, int64_t submitted_ns)
    : id_(id), label_(std::move(label)), rank_(rank), submitted_ns_(submitted_ns) {
  decisions_.reserve(8);
}

void Journal::note(Decision d, int64_t now_ns) noexcept try {
  d.at_s = d.last_s = seconds_between(submitted_ns_, now_ns);
  const std::lock_guard lock(mutex_);
  const size_t n = decisions_.size(), last = oldest_ > kFirst ? oldest_ - 1 : n - 1;
  if (n > 0 && repeats(decisions_[last], d)) {
    Decision& before = decisions_[last];
    ++before.count;
    before.last_s = d.at_s;
    before.tokens += d.tokens;
    before.step = d.step;
  } else if (n < kFirst + kLatest) {
    decisions_.push_back(d);
  } else {
    if (oldest_ < kFirst) oldest_ = kFirst;
    decisions_[oldest_] = d;
    oldest_ = oldest_ + 1 == kFirst + kLatest ? kFirst : oldest_ + 1;
    ++dropped_;
  }
} catch (...) {
  ++dropped_;
}

void Journal::close(FinishReason reason, const RequestStats& s) noexcept try {
  {
    const std::lock_guard lock(mutex_);
    finish_ = reason;
    stats_ = s;
  }
  tracked_.retire([this] { return trim(); });
} catch (...) {  // then it keeps what it has
}

/// A finished story does not grow.
bool Journal::trim() {
  const std::lock_guard lock(mutex_);
  const bool slack = decisions_.capacity() > decisions_.size();
  decisions_.shrink_to_fit();
  return slack;
}

RequestRecord Journal::record() const {
  const std::lock_guard lock(mutex_);
  RequestRecord r{.id = id_, .label = label_, .rank = rank_, .finish = finish_, .submitted_ns = submitted_ns_, .stats = stats_, .decisions = decisions_, .dropped = dropped_};
  if (oldest_ > kFirst) std::rotate(r.decisions.begin() + kFirst, r.decisions.begin() + ptrdiff_t(oldest_), r.decisions.end());
  return r;
}

std::shared_ptr<Journal> Journals::open(uint64_t id, std::string label, int rank, int64_t submitted_ns) {
  auto journal = std::make_shared<Journal>(id, std::move(label), rank, submitted_ns);
  const std::lock_guard lock(mutex_);
  alive_[id] = journal;
  return journal;
}

void Journals::close(uint64_t id) noexcept try {
  const std::lock_guard lock(mutex_);
  const auto it = alive_.find(id);
  if (it == alive_.end()) return;
  const auto journal = std::move(it->second);
  alive_.erase(it);
  done_.push_back(journal);
  if (done_.size() > kRemembered) done_.pop_front();
} catch (...) {  // no memory to remember it
}

void Journals::drop(uint64_t id) {
  const std::lock_guard lock(mutex_);
  alive_.erase(id);
}

std::shared_ptr<Journal> Journals::of(uint64_t id) const {
  const std::lock_guard lock(mutex_);
  if (const auto it = alive_.find(id); it != alive_.end()) return it->second;
  const auto it = std::find_if(done_.rbegin(), done_.rend(), [&](const auto& j) { return j->id() == id; });
  return it == done_.rend() ? nullptr : *it;
}

std::vector<RequestRecord> Journals::find(std::string_view name, size_t most) const {
  uint64_t id = 0;
  const bool numeric = !name.empty() && std::from_chars(name.data(), name.data() + name.size(), id).ptr == name.data() + name.size();
  std::vector<std::shared_ptr<Journal>> found;
  {
    const std::lock_guard lock(mutex_);
    const auto add = [&](const std::shared_ptr<Journal>& j) {
      if (name.empty() || label_matches(j->label(), name) || (numeric && j->id() == id)) found.push_back(j);
    };
    for (const auto& [key, j] : alive_) add(j);
    for (const auto& j : done_) add(j);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a->submitted_ns() != b->submitted_ns() ? a->submitted_ns() > b->submitted_ns() : a->id() > b->id();
  });
  if (found.size() > most) found.resize(most);
  std::vector<RequestRecord> out;
  for (const auto& j : found) out.push_back(j->record());
  return out;
}

}  // namespace isotope::engine
