// A prompt's block hashes, computed by the thread that submits it and shipped beside the request. The engine takes them over only
// after a cheap test, so that a chain of another geometry, identity or prompt is never used.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"

namespace isotope::base {

struct HashChain {
  int block_size = 0;
  ChainKey key;
  int64_t tokens = 0;        ///< of the prompt
  uint64_t fingerprint = 0;  ///< of the prompt's bytes
  std::vector<BlockLink> links;
};

enum class ChainFault { none, block_size, seed, length, fingerprint, link };
inline constexpr int kChainFaults = 6;

uint64_t fingerprint(std::span<const int32_t> tokens) noexcept;
/// Reserves memory for `room` links, so that the chain can grow with the output.
HashChain hash_prompt(std::span<const int32_t> tokens, int block_size, const ChainKey&, int64_t room = 0);
/// What keeps the chain from standing for these tokens: geometry, key, count and fingerprint must agree, and the first, middle and
/// last link are computed again.
ChainFault check_chain(const HashChain&, std::span<const int32_t> tokens, int block_size, const ChainKey&);

}  // namespace isotope::base
