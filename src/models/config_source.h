// Brings both containers to one spelling: config.json's. Internal to the configuration parser.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/arch.h"
#include "weights/checkpoint.h"
#include "weights/metadata.h"

namespace isotope::models {

struct ConfigSource {
  const Arch* arch = nullptr;
  bool gguf = false;
  weights::Metadata fields;  ///< the text model's fields at the top level, class defaults filled in, overrides applied
};

/// From config.json: picks the row by `architectures` (else `model_type`), takes `text_config` out of a wrapper.
Result<ConfigSource> hf_source(const weights::Checkpoint&, const std::map<std::string, std::string>& overrides);
/// From GGUF keys, translated by a table, and the rope tensors. Keys that only GGUF has: "rotary_dim", "rope_divisors".
Result<ConfigSource> gguf_source(const weights::Checkpoint&, const std::map<std::string, std::string>& overrides);
/// Adds what a GGUF file says of layers with a recurrent state; `prefix` is "<architecture>.".
Result<void> read_gguf_state(const weights::Checkpoint&, const Arch&, const std::string& prefix, nlohmann::json& out);
/// Bring config.json of families with words of their own to those of the others.
void spell_step(nlohmann::json&);
void spell_longcat(nlohmann::json&);
/// The key, after "<architecture>.", from which read_gguf_state() took the field that a text speaks of; empty if none.
std::string_view gguf_state_key(const Arch&, std::string_view text);
/// Adds the GGUF spelling of the field that an error speaks of; `architecture` is what the file calls it.
void name_gguf_key(const Arch&, std::string_view architecture, Error&);

}  // namespace isotope::models
