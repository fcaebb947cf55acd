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

/// Everything besides the tokens that the KV of a prefix depends on, or that must keep two users' prefixes apart. An index that
/// lives inside one engine may leave out what never differs there (model, revision, dtype, block size); whatever is shared with
/// other processes must fill every field.
struct CacheIdentity {
  std::string_view model = {}, revision = {};  ///< name and fingerprint of the files
  std::string_view salt = {};                  ///< the request's cache_salt
  std::string_view lora = {};                  ///< adapter, empty for the base model
  double lora_scale = 1;                       ///< counts only with an adapter
  std::string_view kv_dtype = {};              ///< how keys and values are stored
  int block_size = 0;                          ///< tokens of a block; 0 = the same everywhere
};

/// The one function that turns an identity into a number: the seed of a chain, which stands in for the parent of its first block.
/// None when the identity is empty: a plain chain, as other engines compute it. Fields are length-prefixed, so ("ab","c") and
/// ("a","bc") differ.
std::optional<uint64_t> cache_seed(const CacheIdentity&);

/// What a chain is hashed under: a seed for all of it, and if wanted a salt from some token on, so that the blocks before it are
/// shared with everybody and those after it only with holders of the salt.
struct ChainKey {
  ChainKey() = default;
  ChainKey(std::optional<uint64_t> s) : seed(s) {}
  ChainKey(uint64_t s) : seed(s) {}
  std::optional<uint64_t> seed;
  std::optional<uint64_t> salt;
  int64_t salted_from = 0;  ///< first token that is private; the block that holds it is the first salted one
  bool operator==(const ChainKey&) const = default;
  /// The first salted block, or -1.
  int64_t salted_block(int block_size) const { return salt ? salted_from / block_size : -1; }
};

/// One link of a chain. `hash` is the public block hash: xxh64 over the parent's hash (8 bytes, little-endian; left out for the
/// first block of a plain chain) and the tokens as little-endian int64. `check` is a second chain under a key drawn at process
/// start: two prefixes made to collide in `hash` still differ in it, so that a child block filed under a colliding parent is
/// never taken for ours.
struct BlockLink {
  uint64_t hash = 0, check = 0;
  bool operator==(const BlockLink&) const = default;
};

/// What block `block` is hashed under as its parent: the previous link's hash, the seed (0 if plain) for the first block, mixed
/// with the salt where the salted part begins. REQUIRES: links holds the blocks before it.
uint64_t parent_of(std::span<const BlockLink> links, int64_t block, int block_size, const ChainKey&);

/// Link of block `block`, whose tokens are given [block_size]. REQUIRES: links holds the blocks before it.
BlockLink link_of(std::span<const BlockLink> links, int64_t block, std::span<const int32_t> tokens, const ChainKey&);

/// Appends the links of all complete blocks of `tokens` that `links` does not hold yet.
void extend_chain(std::vector<BlockLink>& links, std::span<const int32_t> tokens, int block_size, const ChainKey& key);

}  // namespace isotope::base
