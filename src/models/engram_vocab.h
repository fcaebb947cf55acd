// The compressed vocabulary of models with n-gram tables: tokens that say the same are one. It follows from the tokenizer alone and is kept between runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "isotope/result.h"
#include "isotope/token_texts.h"
#include "levers/groups.h"
#include "models/engram_config.h"

namespace isotope::models {

struct CompressedVocab {
  std::vector<int32_t> map;  ///< [tokens] numbers in the order in which keys are first met
  int64_t size = 0;
  bool operator==(const CompressedVocab&) const = default;
};
CompressedVocab compress_vocab(const TokenTexts&);

/// File format "isotope engram vocabulary", version 1: magic, version, then as little-endian words key, tokens, size, checksum; then the map as int32.
/// Named by what it was made from: a hash of the version, the number of tokens and all their spellings.
std::string vocab_cache_name(const TokenTexts&);
std::string write_vocab(const CompressedVocab&, uint64_t key);
/// Errors say what is wrong with the bytes.
Result<CompressedVocab> read_vocab(std::string_view bytes, uint64_t key, int64_t tokens);

/// From the folder, or made anew and stored there. A file that cannot be used is replaced with a warning; a folder that cannot be written costs the storing
/// alone. `folder` empty: nothing is stored. `hit`: whether it came from there.
CompressedVocab cached_vocab(const TokenTexts&, const std::string& folder, bool* hit = nullptr);

/// Gives a model's configuration the map of its tokens; does nothing for one without n-gram tables. Fails when tokens come to another number than the
/// configuration says, or there is nobody to read them. `dummy`: without a tokenizer tokens are numbered as they come.
Result<void> resolve_engram(EngramConfig&, int64_t vocab, const VocabSource&, const MakeTokenTexts&, const levers::Engram&, bool dummy = false);

}  // namespace isotope::models
