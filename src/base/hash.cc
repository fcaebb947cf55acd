#include "base/hash.h"

#include <xxhash.h>

#include <array>
#include <bit>
#include <random>

namespace isotope::base {

static_assert(std::endian::native == std::endian::little, "block hashes are defined over little-endian integers");

uint64_t xxh64(const void* data, size_t bytes, uint64_t seed) noexcept {
  return XXH64(data, bytes, seed);
}

std::optional<uint64_t> cache_seed(const CacheIdentity& id) {
  const std::array<std::string_view, 3> fields{id.model, id.salt, id.lora};
  std::string text;
  bool any = false;
  for (std::string_view f : fields) {
    const uint64_t n = f.size();
    any |= n != 0;
    text.append(reinterpret_cast<const char*>(&n), sizeof n).append(f);
  }
  if (!any) return std::nullopt;
  return xxh64(text);
}

namespace {

uint64_t process_key() {
  static const uint64_t key = [] {
    std::random_device d;
    return uint64_t(d()) << 32 | d();
  }();
  return key;
}

}  // namespace

void extend_chain(std::vector<BlockLink>& links, std::span<const int32_t> tokens, int block_size, std::optional<uint64_t> seed) {
  const size_t size = size_t(block_size), blocks = tokens.size() / size;
  if (links.size() >= blocks) return;
  const uint64_t key = process_key();
  thread_local std::vector<int64_t> text;  // [parent | tokens]; kept, because decoding sequences come here block by block
  text.resize(size + 1);
  for (size_t b = links.size(); b < blocks; ++b) {
    for (size_t i = 0; i < size; ++i) text[i + 1] = tokens[b * size + i];
    const bool plain = b == 0 && !seed;
    text[0] = int64_t(b ? links[b - 1].hash : seed.value_or(0));
    BlockLink link;
    link.hash = xxh64(text.data() + (plain ? 1 : 0), (size + (plain ? 0 : 1)) * sizeof(int64_t));
    text[0] = int64_t(b ? links[b - 1].check : seed.value_or(0));
    link.check = XXH3_64bits_withSeed(text.data(), text.size() * sizeof(int64_t), key);
    links.push_back(link);
  }
}

}  // namespace isotope::base
