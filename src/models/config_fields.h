// Bounds and messages that the parts of the configuration parser share. Internal.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "models/config.h"
#include "models/config_source.h"

namespace isotope::models {

// Upper bounds keep products of sizes far from overflow and refuse hostile files before anything is allocated by them.
constexpr int64_t kMaxLayers = 4096, kMaxWidth = 1 << 20, kMaxHeads = 1 << 14, kMaxHeadDim = 1 << 12, kMaxVocab = 1 << 24, kMaxContext = int64_t{1} << 31;

/// The first of several spellings that the file uses; the first of all if it uses none.
std::string_view spelled(const weights::Metadata&, std::initializer_list<std::string_view> names);

/// A value that no model can have, or that this program does not know; with where it stands and what can be done.
tl::unexpected<Error> wrong(const weights::Metadata&, std::string what);
tl::unexpected<Error> unknown(const weights::Metadata&, std::string what, std::string remedy);

Result<int64_t> in_range(const weights::Metadata&, std::string_view key, int64_t low, int64_t high);
Result<int64_t> in_range_or(const weights::Metadata&, std::string_view key, int64_t low, int64_t high, int64_t otherwise);
Result<float> finite_or(const weights::Metadata&, std::string_view key, double otherwise);

/// Fills ModelConfig::latent, and the heads of the cache that follow from it.
Result<void> parse_latent(const ConfigSource&, ModelConfig&);

/// Says which layers attend, which carry a state and which are a feed-forward block alone.
Result<void> place_mixers(const ConfigSource&, ModelConfig&);
/// Fills ModelConfig::state, after place_mixers(), which it calls.
Result<void> parse_mixers(const ConfigSource&, ModelConfig&);

/// hidden_activation or hidden_act; silu when neither is there.
Result<ops::Activation> parse_act(const weights::Metadata&);

/// Fills ModelConfig::layer, which has its size: windows and layers without rotation.
Result<void> parse_layers(const ConfigSource&, ModelConfig&);
/// How heads are normed, whether queries grow with their position, which layers' heads differ from the others and which read another one's keys and values;
/// after parse_layers().
Result<void> parse_attention(const ConfigSource&, ModelConfig&);
/// What Gemma 3n and 4 have beyond that; after parse_attention().
Result<void> parse_gemma(const ConfigSource&, ModelConfig&);
/// Fills ModelConfig::moe and says which layers have experts.
Result<void> parse_moe(const ConfigSource&, ModelConfig&);
/// Fills ModelConfig::hyper and ngram.
Result<void> parse_hyper(const ConfigSource&, ModelConfig&);
/// Fills what the configuration says of indexers, compressed keys and streams; after all others.
Result<void> parse_sparse(const ConfigSource&, ModelConfig&);
/// Where configurations say how many multi-token-prediction layers there are.
constexpr std::string_view kDraftCount[] = {"num_nextn_predict_layers", "mtp_num_hidden_layers"};
constexpr int64_t kMaxDrafts = 64;
/// Says which multi-token-prediction heads are kept, and adds their layers; last of all, since those are like others.
Result<void> parse_drafts(const ConfigSource&, const weights::Checkpoint&, ModelConfig&);
/// What the families with compressed keys have in common: sizes, streams, indexer, rotations.
Result<void> parse_compressed_sizes(const weights::Metadata&, ModelConfig&);
/// The same and more for DeepSeek V4.1: which layer's compressed keys and choices each layer uses, and n-gram tables.
Result<void> parse_shared_keys(const ConfigSource&, ModelConfig&);
/// Fills ModelConfig::ropes and each layer's rope_index; after parse_layers().
Result<void> parse_ropes(const ConfigSource&, int64_t served_len, ModelConfig&);

}  // namespace isotope::models
