// Block hashes of the prefix cache. One place decides what makes two prefixes the same, for the in-memory index, the offload
// tiers and the KV events alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isotope::base {

uint64_t xxh64(const void* data, size_t bytes, uint64_t seed = 0) noexcept;
inline uint64_t xxh64(std::string_view s, uint64_t seed = 0) noexcept {
  return xxh64(s.data(), s.size(), seed);
}

/// Everything besides the tokens that the KV of a prefix depends on, or that must keep two users' prefixes apart.
struct CacheIdentity {
  std::string_view model = {};  ///< name and fingerprint of the model; empty while the cache is private to one engine
  std::string_view salt = {};   ///< the request's cache_salt
  std::string_view lora = {};   ///< adapter, empty for the base model
};

/// Seed of a request's chain: what stands in for the parent of its first block. None when the identity is empty: a plain chain,
/// as other engines compute it. Fields are length-prefixed, so ("ab","c") and ("a","bc") differ.
std::optional<uint64_t> cache_seed(const CacheIdentity&);

/// One link of a chain. `hash` is the public block hash: xxh64 over the parent's hash (8 bytes, little-endian; left out for the
/// first block of a plain chain) and the tokens as little-endian int64. `check` is a second chain under a key drawn at process
/// start: two prefixes made to collide in `hash` still differ in it, so that a child block filed under a colliding parent is
/// never taken for ours.
struct BlockLink {
  uint64_t hash = 0, check = 0;
  bool operator==(const BlockLink&) const = default;
};

/// Appends the links of all complete blocks of `tokens` that `links` does not hold yet.
void extend_chain(std::vector<BlockLink>& links, std::span<const int32_t> tokens, int block_size, std::optional<uint64_t> seed);

}  // namespace isotope::base
