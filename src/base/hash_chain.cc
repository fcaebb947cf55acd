#include "base/hash_chain.h"

#include <xxhash.h>

#include <algorithm>

namespace isotope::base {

uint64_t fingerprint(std::span<const int32_t> tokens) noexcept {
  return XXH3_64bits(tokens.data(), tokens.size_bytes());
}

HashChain hash_prompt(std::span<const int32_t> tokens, int block_size, const ChainKey& key, int64_t room) {
  HashChain c{.block_size = block_size, .key = key, .tokens = int64_t(tokens.size()), .fingerprint = fingerprint(tokens)};
  c.links.reserve(std::max(tokens.size() / size_t(block_size), size_t(room)));
  extend_chain(c.links, tokens, block_size, key);
  return c;
}

ChainFault check_chain(const HashChain& c, std::span<const int32_t> tokens, int block_size, const ChainKey& key) {
  if (c.block_size != block_size) return ChainFault::block_size;
  if (c.key != key) return ChainFault::seed;
  const size_t size = size_t(block_size), n = tokens.size() / size;
  if (c.tokens != int64_t(tokens.size()) || c.links.size() != n) return ChainFault::length;
  if (c.fingerprint != fingerprint(tokens)) return ChainFault::fingerprint;
  if (n == 0) return ChainFault::none;
  for (const size_t b : {size_t(0), n / 2, n - 1})
    if (link_of(c.links, int64_t(b), tokens.subspan(b * size, size), key) != c.links[b]) return ChainFault::link;
  return ChainFault::none;
}

}  // namespace isotope::base
