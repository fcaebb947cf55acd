#include "models/engram_hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "models/engram_random.h"
#include "models/primes.h"
#include "ops/ngram_rows.h"

namespace isotope::models {
namespace {

constexpr uint64_t kLayerSeed = 10007;

/// Odd, and so small that a token times it stays within 63 bits.
std::vector<int64_t> multipliers_of(int layer, int longest, int64_t vocab) {
  NumpyRandom random(kLayerSeed * uint64_t(layer));
  const int64_t bound = std::max<int64_t>(1, std::numeric_limits<int64_t>::max() / vocab / 2);
  std::vector<int64_t> out;
  for (int i = 0; i < longest; ++i) out.push_back(2 * random.below(bound) + 1);
  return out;
}

}  // namespace

std::vector<std::vector<int64_t>> engram_primes(int tables, int orders, int heads, int64_t base) {
  std::vector<std::vector<int64_t>> out;
  std::unordered_set<int64_t> used;
  for (int t = 0; t < tables; ++t) {
    auto& primes = out.emplace_back();
    for (int order = 0; order < orders; ++order)
      for (int64_t head = 0, at = base - 1; head < heads; ++head) {
        do ++at;
        while (used.contains(at) || !is_prime(at));
        used.insert(at);
        primes.push_back(at);
      }
  }
  return out;
}

Result<EngramHash> EngramHash::make(const EngramConfig& c) {
  EngramHash h;
  h.columns_ = c.columns(), h.heads_ = c.heads, h.lookback_ = c.longest - 1, h.map_ = c.map;
  for (int32_t id : *c.map)
    if (id < 0 || id >= c.vocab) return fail(Code::internal, fmt::format("a token is number {} of {} compressed ones", id, c.vocab), "engram", "report this as a defect");
  if (c.pad_id < 0 || size_t(c.pad_id) >= c.map->size())
    return fail(Code::data_loss, fmt::format("engram_pad_token_id is {}, the vocabulary has {} tokens", c.pad_id, c.map->size()), "config.json",
                "use the config.json that was published with the model");
  h.pad_ = h.compressed(c.pad_id);
  auto primes = engram_primes(int(c.layers.size()), c.longest - 1, c.heads, c.base);
  for (size_t t = 0; t < c.layers.size(); ++t) {
    Table table{.multipliers = multipliers_of(c.layers[t], c.longest, c.vocab), .primes = std::move(primes[t]), .offsets = {}};
    int64_t at = 0;
    for (int64_t p : table.primes) table.offsets.push_back(at), at += p;
    if (at != c.rows[t])
      return fail(Code::data_loss, fmt::format("engram_num_embeddings of layer {} is {}, its hash heads have {} rows", c.layers[t], c.rows[t], at), "config.json",
                  "use the config.json that was published with the model");
    h.tables_.push_back(std::move(table));
  }
  return h;
}

void EngramHash::rows(int table, std::span<const int32_t> ids, std::span<int64_t> rows) const noexcept {
  const Table& t = tables_[size_t(table)];
  bool blocked = false;
  const auto token = [&](int i) {
    blocked = blocked || ids[size_t(i)] < 0;
    return blocked ? pad_ : ids[size_t(i)];
  };
  ops::ngram_rows({.multipliers = t.multipliers, .lengths = t.primes, .offsets = t.offsets, .heads = heads_}, token, rows.data());
}

std::pair<int, int> engram_columns_of(int columns, int ranks, int rank) {
  const int each = (columns + ranks - 1) / ranks;
  return {std::min(columns, rank * each), std::min(columns, (rank + 1) * each)};
}

std::string_view engram_group_refusal(int columns, int ranks) {
  if (ranks > columns) return "more ranks than hash heads";
  for (int r = 0; r < ranks; ++r)
    if (const auto [first, last] = engram_columns_of(columns, ranks, r); first == last) return "a rank without hash heads";
  return {};
}

}  // namespace isotope::models
