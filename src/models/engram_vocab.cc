#include "models/engram_vocab.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <unordered_map>

#include "base/hash.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "isotope/engine.h"

namespace isotope::models {
namespace {

using base::LogLevel;

constexpr std::string_view kMagic = "ISOENGRM";
constexpr uint64_t kVersion = 1, kMaxFile = uint64_t{1} << 30;
static_assert(std::endian::native == std::endian::little, "the file holds little-endian words");

struct Header {
  char magic[8];
  uint64_t version, key, tokens, size, checksum;  ///< of the map
};

uint64_t checksum_of(const std::vector<int32_t>& map) { return base::xxh64(map.data(), map.size() * sizeof(int32_t), kVersion); }

uint64_t key_of(const TokenTexts& t) {
  const uint64_t begin[] = {kVersion, uint64_t(t.size())};
  uint64_t key = base::xxh64(begin, sizeof begin);
  for (int64_t i = 0; i < t.size(); ++i) {
    const std::string_view s = t.spelling(int32_t(i));
    key = base::xxh64(s, key ^ s.size());
  }
  return key;
}

Result<CompressedVocab> broken(std::string why) { return fail(Code::data_loss, std::move(why), {}, "it is made anew"); }

void store(const CompressedVocab& v, uint64_t key, const std::string& folder, const std::string& path) {
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  const auto done = base::write_output(path, write_vocab(v, key), "ATOM_ENGRAM_CACHE_DIR");
  if (!done) base::log(LogLevel::warning, "the compressed vocabulary is not kept: {}", done.error().message());
}

}  // namespace

CompressedVocab compress_vocab(const TokenTexts& t) {
  CompressedVocab out;
  std::unordered_map<std::string, int32_t> numbers;
  for (int64_t i = 0; i < t.size(); ++i) out.map.push_back(numbers.try_emplace(t.key(int32_t(i)), int32_t(numbers.size())).first->second);
  out.size = int64_t(numbers.size());
  return out;
}

std::string vocab_cache_name(const TokenTexts& t) { return fmt::format("vocab-{:016x}.engram", key_of(t)); }

std::string write_vocab(const CompressedVocab& v, uint64_t key) {
  Header h{.magic = {}, .version = kVersion, .key = key, .tokens = v.map.size(), .size = uint64_t(v.size), .checksum = checksum_of(v.map)};
  std::memcpy(h.magic, kMagic.data(), sizeof h.magic);
  std::string out(sizeof h + v.map.size() * sizeof(int32_t), '\0');
  std::memcpy(out.data(), &h, sizeof h);
  if (!v.map.empty()) std::memcpy(out.data() + sizeof h, v.map.data(), v.map.size() * sizeof(int32_t));
  return out;
}

Result<CompressedVocab> read_vocab(std::string_view bytes, uint64_t key, int64_t tokens) {
  Header h{};
  if (bytes.size() < sizeof h) return broken(fmt::format("it has {} bytes, its head alone has {}", bytes.size(), sizeof h));
  std::memcpy(&h, bytes.data(), sizeof h);
  if (std::string_view(h.magic, sizeof h.magic) != kMagic) return broken("it is no such file");
  if (h.version != kVersion) return broken(fmt::format("it is of version {}, this program writes {}", h.version, kVersion));
  if (h.key != key || h.tokens != uint64_t(tokens)) return broken("it belongs to another vocabulary");
  if (bytes.size() != sizeof h + h.tokens * sizeof(int32_t)) return broken(fmt::format("it has {} bytes instead of {}", bytes.size(), sizeof h + h.tokens * sizeof(int32_t)));
  CompressedVocab v{.map = std::vector<int32_t>(size_t(h.tokens)), .size = int64_t(h.size)};
  if (!v.map.empty()) std::memcpy(v.map.data(), bytes.data() + sizeof h, v.map.size() * sizeof(int32_t));
  if (checksum_of(v.map) != h.checksum || h.size > h.tokens) return broken("its checksum is wrong");
  for (int32_t id : v.map)
    if (id < 0 || uint64_t(id) >= h.size) return broken("its numbers are out of range");
  return v;
}

CompressedVocab cached_vocab(const TokenTexts& t, const std::string& folder, bool* hit) {
  if (hit) *hit = false;
  if (folder.empty()) return compress_vocab(t);
  const uint64_t key = key_of(t);
  const std::string path = (std::filesystem::path(folder) / vocab_cache_name(t)).string();
  std::error_code ec;
  if (std::filesystem::exists(path, ec)) {
    const auto text = base::read_text_file(path, kMaxFile);
    auto stored = text ? read_vocab(*text, key, t.size()) : tl::unexpected(text.error());
    if (stored) {
      if (hit) *hit = true;
      return *std::move(stored);
    }
    base::log(LogLevel::warning, "{}: the compressed vocabulary cannot be used ({}) and is made anew", path, stored.error().what);
  }
  CompressedVocab v = compress_vocab(t);
  store(v, key, folder, path);
  return v;
}

Result<void> resolve_engram(EngramConfig& c, int64_t vocab, const VocabSource& source, const MakeTokenTexts& read, const levers::Engram& levers, bool dummy) {
  if (!c) return {};
  c.in_place = levers.in_place;
  const bool tokenizer = !source.tokenizer_json.empty() || !source.tokens.empty();
  if (dummy && !tokenizer) {
    std::vector<int32_t> map(size_t(vocab), 0);
    for (size_t i = 0; i < map.size(); ++i) map[i] = int32_t(int64_t(i) % c.vocab);
    c.map = std::make_shared<const std::vector<int32_t>>(std::move(map));
    return {};
  }
  if (!read || !tokenizer)
    return fail(Code::not_found, "the model's n-gram tables are looked up by what tokens say, and there is no tokenizer", tokenizer ? "engine options" : "tokenizer.json",
                "put the model's tokenizer.json beside its config.json");
  ISO_TRY(const std::shared_ptr<const TokenTexts> texts, read(source));
  std::string folder = levers.cache_dir;
  if (folder.starts_with("~")) folder.clear();  // nobody knows whose home it is
  bool hit = false;
  CompressedVocab v = cached_vocab(*texts, folder, &hit);
  if (v.size != c.vocab)
    return fail(Code::data_loss, fmt::format("the tokens of the vocabulary come to {} that say different things, engram_compressed_vocab_size is {}", v.size, c.vocab),
                "tokenizer.json", "use the tokenizer.json and config.json that were published with the model");
  if (int64_t(v.map.size()) < vocab) v.map.resize(size_t(vocab), v.map.empty() ? 0 : v.map[size_t(c.pad_id) < v.map.size() ? size_t(c.pad_id) : 0]);  // rows of the head that are no token
  base::log(LogLevel::info, "n-gram tables: {} tokens say {} different things ({})", texts->size(), v.size,
            hit ? "from " + folder : folder.empty() ? "not kept: ATOM_ENGRAM_CACHE_DIR" : "kept in " + folder);
  c.map = std::make_shared<const std::vector<int32_t>>(std::move(v.map));
  c.map_kept = hit;
  return {};
}

}  // namespace isotope::models
