#include "engine/sizing.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/cgroup.h"

namespace isotope::engine {

namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

struct Sizer {
  std::span<const KvGroupCost> groups;
  const EngineOptions& options;

  int64_t step_tokens(int64_t len) const {
    return options.chunked_prefill ? options.max_num_batched_tokens : std::max(options.max_num_batched_tokens, len);
  }
  /// Blocks of one group when full groups hold `tokens` and `seqs` sequences run, none longer than `len`.
  int64_t blocks(const KvGroupCost& g, int64_t tokens, int64_t seqs, int64_t len) const {
    const int64_t b = options.block_size, all = ceil_div(tokens, b);
    if (!g.window) return all;
    // Each sequence: its window, cut at both ends, and the block it writes; all together: the tokens of one step.
    return std::min(all, seqs * (ceil_div(g.window, b) + 2) + ceil_div(std::min(step_tokens(len), tokens), b));
  }
  double cost(int64_t tokens, int64_t seqs, int64_t len) const {
    double bytes = 0;
    for (const KvGroupCost& g : groups) bytes += double(blocks(g, tokens, seqs, len)) * double(g.block_bytes);
    return bytes;
  }
};

/// The largest n in [0, most] that f accepts; f accepts everything below a limit.
template <class F>
int64_t largest(int64_t most, F f) {
  int64_t lo = 0, hi = most;
  while (lo < hi) {
    const int64_t mid = hi - (hi - lo) / 2;
    if (f(mid))
      lo = mid;
    else
      hi = mid - 1;
  }
  return lo;
}

}  // namespace

Result<KvSizing> size_kv(std::span<const KvGroupCost> groups, const EngineOptions& o, int64_t max_model_len, size_t bytes) {
  const Sizer sizer{groups, o};
  KvSizing out;
  out.max_model_len = largest(max_model_len, [&](int64_t len) { return sizer.cost(len, 1, len) <= double(bytes); });
  if (out.max_model_len < std::min<int64_t>(max_model_len, 2 * o.block_size)) {
    return fail(Code::resource_exhausted,
                fmt::format("{} bytes for the KV cache{} hold only {} tokens; one block of {} tokens takes {:.0f} bytes", bytes,
                            o.data_parallel_size > 1 ? fmt::format(" of each of {} engines", o.data_parallel_size) : "", out.max_model_len, o.block_size,
                            sizer.cost(1, 1, 1)),
                o.kv_bytes ? "--kv-cache-memory-bytes" : "free memory", "give it more memory, or choose a smaller KV type");
  }
  constexpr int64_t kMaxBlocks = std::numeric_limits<int32_t>::max();
  const int64_t most = std::min(kMaxBlocks / o.block_size * o.block_size, int64_t(o.max_num_seqs) * out.max_model_len);
  // Sliding groups are sized for all sequences only as far as that leaves room for the longest one.
  const auto fits = [&](int64_t tokens, int64_t seqs) { return sizer.cost(tokens, seqs, out.max_model_len) <= double(bytes); };
  const int64_t seqs = std::max<int64_t>(1, largest(o.max_num_seqs, [&](int64_t n) { return fits(out.max_model_len, n); }));
  out.tokens = std::max(out.max_model_len, largest(most, [&](int64_t tokens) { return fits(tokens, seqs); }));
  for (const KvGroupCost& g : groups) {
    const int64_t blocks = sizer.blocks(g, out.tokens, seqs, out.max_model_len);
    out.groups.push_back({.blocks = blocks, .window = g.window});
    out.bytes += size_t(blocks) * g.block_bytes;
  }
  return out;
}

Result<StateSizing> size_states(size_t slot_bytes, const EngineOptions& o, bool images, size_t bytes) {
  if (slot_bytes == 0) return StateSizing{0, o.max_num_seqs};
  const int64_t fit = int64_t(bytes / 2 / slot_bytes);
  if (fit < 1)
    return fail(Code::resource_exhausted, fmt::format("{} bytes for the cache; one sequence's recurrent state takes {}, and states may take half", bytes, slot_bytes),
                o.kv_bytes ? "--kv-cache-memory-bytes" : "free memory", "give it more memory");
  const int64_t seqs = std::clamp<int64_t>(images ? fit / 2 : fit, 1, o.max_num_seqs);
  return StateSizing{images ? std::min(fit, 2 * seqs) : seqs, int(seqs)};
}

Result<size_t> kv_budget(const EngineOptions& o) {
  if (o.kv_bytes > 0) return size_t(o.kv_bytes);
  const uint64_t available = base::available_memory();
  if (available == 0) return size_t(1) << 30;  // the system does not say; one GiB is safe nearly everywhere
  return size_t(double(available) * o.memory_fraction);
}

}  // namespace isotope::engine
