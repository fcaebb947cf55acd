// From the last tokens of a sequence to rows of n-gram tables (Engram, arXiv:2601.07372, as DeepSeek V4.1 hashes).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "isotope/result.h"
#include "models/engram_config.h"

namespace isotope::models {

/// Of each order (2 to the longest n-gram) each head looks a row up in a range of the table that is its own, of prime length.
class EngramHash {
 public:
  /// Fails where the heads' ranges are not as many rows as the configuration says for a table, or a token of the map is outside the compressed vocabulary.
  /// REQUIRES: the configuration was parsed, and its map is set.
  static Result<EngramHash> make(const EngramConfig&);

  int columns() const { return columns_; }
  int lookback() const { return lookback_; }
  int32_t pad() const { return pad_; }                        ///< compressed
  int32_t compressed(int32_t token) const { return (*map_)[size_t(token)]; }
  std::span<const int64_t> multipliers(int table) const { return tables_[size_t(table)].multipliers; }
  std::span<const int64_t> primes(int table) const { return tables_[size_t(table)].primes; }

  /// Rows of the n-grams that end at a token. `ids`: compressed, the token's own first, then the ones before it, lookback() + 1 in all; a negative one and all
  /// behind it stand for nothing and count as the pad. `rows` [columns].
  void rows(int table, std::span<const int32_t> ids, std::span<int64_t> rows) const noexcept;

 private:
  struct Table {
    std::vector<int64_t> multipliers;                         ///< [longest]
    std::vector<int64_t> primes, offsets;                     ///< [columns] lengths and beginnings of heads' ranges
  };
  int columns_ = 0, heads_ = 0, lookback_ = 0;
  int32_t pad_ = 0;
  std::shared_ptr<const std::vector<int32_t>> map_;
  std::vector<Table> tables_;
};

/// The primes that heads of all tables get, in order: for each order the first one is the smallest unused from `base` on, each other head's the smallest unused
/// one above the last. [tables][columns]
std::vector<std::vector<int64_t>> engram_primes(int tables, int orders, int heads, int64_t base);

/// Whole heads of a table for each of `ranks`: columns [first, second) of rank `rank`. Ranks behind the last head get none.
std::pair<int, int> engram_columns_of(int columns, int ranks, int rank);
/// Why a group of so many ranks cannot each read its own part in place; empty: they can. One reason holds for all of them.
std::string_view engram_group_refusal(int columns, int ranks);

}  // namespace isotope::models
