// N-gram tables (Engram, arXiv:2601.07372) as DeepSeek V4.1's config.json has them, and what is counted of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace isotope::models {

struct EngramConfig {
  std::vector<int> layers;          ///< ascending; empty = the family or the model has none
  std::vector<int64_t> rows;        ///< of each one's table
  int longest = 0;                  ///< tokens of the longest n-gram; orders 2 to this
  int heads = 0, dim = 0;           ///< of each order; numbers of a row
  int64_t base = 0;                 ///< heads have the primes from this on as rows
  int64_t vocab = 0;                ///< tokens once those that say the same are one
  int32_t pad_id = 0;               ///< token that stands where a sequence has not begun
  explicit operator bool() const { return !layers.empty(); }
  int columns() const { return (longest - 1) * heads; }  ///< rows of a token
  int64_t width() const { return int64_t{columns()} * dim; }

  // Not of config.json: what resolve_engram() adds.
  std::shared_ptr<const std::vector<int32_t>> map;  ///< [V] the number of each token among `vocab`
  bool in_place = true;             ///< rows are read within the layer; else ahead of it, by a thread of its own
  bool map_kept = false;            ///< the map came from ATOM_ENGRAM_CACHE_DIR
};

/// Since the start.
struct EngramStats {
  std::string_view path;            ///< "in_place" or "staged"
  int64_t rows = 0, bytes = 0;      ///< read from tables
  double seconds = 0;               ///< of reading
  int64_t table_bytes = 0;          ///< mapped
  bool map_kept = false;            ///< see EngramConfig
};

}  // namespace isotope::models
