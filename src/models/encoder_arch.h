// The encoder families: what their files call things. Internal.
#pragma once

#include <span>
#include <string_view>

#include "models/encoder.h"

namespace isotope::models {

/// A key of config.json that a family spells its own way.
struct EncoderKey {
  std::string_view ours, theirs;
};

struct EncoderArch {
  std::string_view name;         ///< ours
  std::string_view gguf;         ///< general.architecture; empty = no such files
  std::string_view classes;      ///< config.json `architectures`, separated by spaces
  std::string_view model_type;
  std::string_view prefix;       ///< that classes with a head put before the encoder's tensors
  bool distil = false;           ///< DistilBERT's tensor names
  bool padded_positions = false; ///< positions begin behind the padding token's id
  std::string_view head, labels; ///< tensors of the classification head, from the file's root
  bool head_relu = false;
  std::span<const EncoderKey> keys = {};
  std::string_view defaults;     ///< config.json values of the transformers class where a file leaves them out, as JSON
};

std::span<const EncoderArch> encoder_archs();
/// The row that the checkpoint names, or null.
const EncoderArch* encoder_arch_of(const weights::Checkpoint&);

}  // namespace isotope::models
