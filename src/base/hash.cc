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
  const double scale = id.lora.empty() || id.lora_scale == 1 ? 0 : id.lora_scale;
  const std::string numbers = id.block_size == 0 && scale == 0
                                  ? std::string()
                                  : std::string(reinterpret_cast<const char*>(&id.block_size), sizeof id.block_size) +
                                        std::string(reinterpret_cast<const char*>(&scale), sizeof scale);
  const std::array<std::string_view, 6> fields{id.model, id.salt, id.lora, id.revision, id.kv_dtype, numbers};
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

uint64_t mix(uint64_t parent, uint64_t salt) {
  const uint64_t both[] = {parent, salt};
  return xxh64(both, sizeof both);
}

uint64_t parent_value(uint64_t previous, int64_t block, size_t block_size, const ChainKey& key) {
  const uint64_t parent = block ? previous : key.seed.value_or(0);
  return block == key.salted_block(int(block_size)) ? mix(parent, *key.salt) : parent;
}

}  // namespace

uint64_t parent_of(std::span<const BlockLink> links, int64_t block, int block_size, const ChainKey& key) {
  return parent_value(block ? links[size_t(block) - 1].hash : 0, block, size_t(block_size), key);
}

BlockLink link_of(std::span<const BlockLink> links, int64_t block, std::span<const int32_t> tokens, const ChainKey& key) {
  const size_t size = tokens.size();
  thread_local std::vector<int64_t> text;  // [parent | tokens]; kept, because decoding sequences come here block by block
  text.resize(size + 1);
  for (size_t i = 0; i < size; ++i) text[i + 1] = tokens[i];
  const BlockLink previous = block ? links[size_t(block) - 1] : BlockLink{};
  const bool plain = block == 0 && !key.seed && key.salted_block(int(size)) != 0;
  text[0] = int64_t(parent_value(previous.hash, block, size, key));
  BlockLink link;
  link.hash = xxh64(text.data() + (plain ? 1 : 0), (size + (plain ? 0 : 1)) * sizeof(int64_t));
  text[0] = int64_t(parent_value(previous.check, block, size, key));
  link.check = XXH3_64bits_withSeed(text.data(), text.size() * sizeof(int64_t), process_key());
  return link;
}

void extend_chain(std::vector<BlockLink>& links, std::span<const int32_t> tokens, int block_size, const ChainKey& key) {
  const size_t size = size_t(block_size), blocks = tokens.size() / size;
  for (size_t b = links.size(); b < blocks; ++b) links.push_back(link_of(links, int64_t(b), tokens.subspan(b * size, size), key));
}

}  // namespace isotope::base
