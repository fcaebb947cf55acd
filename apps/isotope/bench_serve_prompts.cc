#include "bench_serve_prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

namespace isotope::app {
namespace {

// Short everyday words, a token each in most vocabularies.
constexpr std::array<const char*, 64> kWords = {
    "the", "time", "man",  "day",  "way",   "year",  "work",  "life", "hand", "part", "place", "case", "week", "home", "water", "room",
    "old", "new",  "good", "high", "small", "large", "early", "long", "last", "next", "great", "own",  "other", "few", "right", "same",
    "was", "has",  "made", "came", "took",  "found", "gave",  "told", "felt", "left", "kept",  "held", "sat",  "ran",  "read",  "saw",
    "and", "but",  "with", "from", "into",  "over",  "after", "then", "when", "who",  "which", "all",  "some", "more", "very",  "now"};

void append(std::vector<int32_t>& ids, RandomStream stream, int64_t n, const std::vector<int32_t>& range) {
  const uint64_t width = uint64_t(int64_t{range[1]} - range[0]);
  for (int64_t i = 0; i < n; ++i) ids.push_back(int32_t(range[0] + int64_t(stream.next() % width)));
}

std::string words(const std::vector<int32_t>& ids) {
  std::string out;
  for (const int32_t id : ids) {
    if (!out.empty()) out += ' ';
    out += kWords[size_t(id) % kWords.size()];
  }
  return out;
}

}  // namespace

RandomStream::RandomStream(uint64_t seed, uint64_t name) : state_(seed * 0x9e3779b97f4a7c15 ^ (name + 1) * 0xd1342543de82ef95) { next(); }

uint64_t RandomStream::next() {
  uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double RandomStream::uniform() { return (double(next() >> 11) + 0.5) * 0x1p-53; }

double RandomStream::normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }

Result<std::vector<serve::Json>> make_prompts(const PromptPlan& p) {
  if (p.range.size() != 2 || p.range[0] < 0 || p.range[0] >= p.range[1])
    return fail(Code::invalid_argument, fmt::format("'{}' is no range of token ids", fmt::join(p.range, ",")), "--token-range", "give FIRST,END with 0 <= FIRST < END");
  if (p.input < 0 || p.prefix < 0 || p.input + p.prefix == 0)
    return fail(Code::invalid_argument, "the prompts have no tokens", "--random-input-len and --random-prefix-len", "make one of them positive");
  constexpr uint64_t kPrefix = ~uint64_t{0} - 1;
  std::vector<serve::Json> out;
  for (int64_t i = p.first; i < p.first + p.count; ++i) {
    std::vector<int32_t> ids;
    append(ids, RandomStream(p.seed, kPrefix - uint64_t(i % std::max<int64_t>(1, p.prefixes))), p.prefix, p.range);
    append(ids, RandomStream(p.seed, uint64_t(i)), p.input, p.range);
    out.push_back(p.text ? serve::Json(words(ids)) : serve::Json(ids));
  }
  return out;
}

}  // namespace isotope::app
