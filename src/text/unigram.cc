#include "text/unigram.h"

#include <algorithm>
#include <limits>

#include "text/bpe.h"
#include "text/fast_split.h"
#include "text/unicode.h"

namespace isotope::text {
namespace {

constexpr double kUnknownPenalty = 10.0;  // SentencePiece's kUnkPenalty
constexpr uint32_t kNone = ~0u;

}  // namespace

Result<std::unique_ptr<Unigram>> Unigram::create(const Vocab& vocab, Options options) {
  std::unique_ptr<Unigram> u(new Unigram(vocab, std::move(options)));
  ISO_CHECK_OK(u->build());
  return u;
}

Result<void> Unigram::build() {
  const auto usable = [&](int32_t id) { return options_.usable.empty() || options_.usable[size_t(id)]; };
  double lowest = std::numeric_limits<double>::infinity();
  std::vector<std::pair<std::string_view, int32_t>> pieces;
  for (int32_t id = 0; id < vocab_.size(); id++) {
    if (!vocab_.has(id) || !usable(id)) continue;
    const std::string_view text = vocab_.text(id);
    if (text.size() > kLongestPiece) {
      return fail(Code::unsupported, "token " + std::to_string(id) + " ('" + std::string(text.substr(0, 40)) + "…') is longer than 1024 bytes", "Unigram model",
                  "use a vocabulary with shorter tokens");
    }
    lowest = std::min(lowest, options_.scores[size_t(id)]);
    if (vocab_.find(text) == id) pieces.emplace_back(text, id);
  }
  unk_score_ = lowest - kUnknownPenalty;
  find_byte_tokens(vocab_, byte_ids_);
  trie_.build(std::move(pieces));
  return {};
}

/// Viterbi over byte positions: path[i] is the best way to end at i.
void Unigram::best_path(std::string_view word, Scratch& s) const {
  auto& path = s.path;
  path.assign(word.size() + 1, {0, -1, kNone});
  const auto relax = [&](size_t from, size_t to, double score, int32_t id) {
    const double total = score + path[from].score;
    if (path[to].start == kNone || total > path[to].score) path[to] = {total, id, uint32_t(from)};
  };
  for (size_t at = 0, n; at < word.size(); at += n) {
    n = char_length(word[at]);
    bool single = false;
    const Trie::Node* node = trie_.root(uint8_t(word[at]));
    for (size_t end = at + 1; node; end++) {
      if (node->value >= 0 && (s.allow_special || !special(node->value))) {
        relax(at, end, options_.scores[size_t(node->value)], node->value);
        single |= end == at + n;
      }
      if (end == word.size()) break;
      node = trie_.child(*node, uint8_t(word[end]));
    }
    if (!single) relax(at, at + n, unk_score_, -1);
  }
}

void Unigram::emit_unknown(std::string_view text, std::vector<int32_t>& out) const {
  const int32_t known = vocab_.find(text);
  if (known >= 0) return out.push_back(known);
  const bool bytes = options_.byte_fallback && std::all_of(text.begin(), text.end(), [&](char b) { return byte_ids_[uint8_t(b)] >= 0; });
  if (bytes) {
    for (const char b : text) out.push_back(byte_ids_[uint8_t(b)]);
  } else if (options_.unk_id >= 0) {
    out.push_back(options_.unk_id);
  }
}

void Unigram::tokenize(std::string_view word, Scratch& s, std::vector<int32_t>& out) const {
  const bool cached = word.size() <= WordCache::kMaxWord && s.allow_special;
  const uint64_t hash = cached ? hash_bytes(word) : 0;
  if (cached && s.cache.find(word, hash, out)) return;
  best_path(word, s);
  const auto& path = s.path;
  std::vector<Span> pieces;  // last first
  for (size_t end = word.size(); end > 0; end = path[end].start) pieces.push_back({path[end].start, end});
  const size_t first = out.size();
  for (size_t i = pieces.size(); i-- > 0;) {
    const int32_t id = path[pieces[i].end].id;
    if (id >= 0 && id != options_.unk_id) {
      out.push_back(id);
      continue;
    }
    const size_t begin = pieces[i].begin;  // unknown pieces in a row are one
    const auto unknown = [&](size_t k) { return path[pieces[k].end].id < 0 || path[pieces[k].end].id == options_.unk_id; };
    while (i > 0 && unknown(i - 1)) i--;
    emit_unknown(word.substr(begin, pieces[i].end - begin), out);
  }
  if (cached && out.size() > first) s.cache.store(word, hash, out.data() + first, out.size() - first);
}

}  // namespace isotope::text
