#include "isotope/profile.h"

#include <algorithm>
#include <utility>

namespace isotope {

StepTimes StepProfile::take() {
  const std::lock_guard lock(mutex_);
  StepTimes out = times_;
  if (!gaps_.empty()) {
    std::nth_element(gaps_.begin(), gaps_.begin() + std::ptrdiff_t(gaps_.size() / 2), gaps_.end());
    out.between_ns = gaps_[gaps_.size() / 2] * out.steps;
  }
  gaps_.clear();
  times_.steps = times_.forward_ns = times_.sample_ns = 0;
  for (OpTime& o : times_.ops) o.calls = o.ns = o.bytes = o.operations = 0;
  std::erase_if(out.ops, [](const OpTime& o) { return o.calls == 0; });
  return out;
}

size_t StepProfile::declare_op(OpTime op) {
  const std::lock_guard lock(mutex_);
  times_.ops.push_back(std::move(op));
  return times_.ops.size() - 1;
}

void StepProfile::add_op(size_t index, int64_t ns, int64_t bytes, int64_t operations) {
  const std::lock_guard lock(mutex_);
  OpTime& o = times_.ops[index];
  ++o.calls;
  o.ns += ns;
  o.bytes += bytes;
  o.operations += operations;
}

void StepProfile::add_step(int64_t forward_ns) {
  const std::lock_guard lock(mutex_);
  ++times_.steps;
  times_.forward_ns += forward_ns;
}

void StepProfile::add_sampling(int64_t ns) {
  const std::lock_guard lock(mutex_);
  times_.sample_ns += ns;
}

void StepProfile::add_gap(int64_t ns) {
  const std::lock_guard lock(mutex_);
  gaps_.push_back(ns);
}

}  // namespace isotope
