// Encoders of BERT's kind (arXiv:1810.04805): every token sees all others, nothing is kept between steps, and the result are the tokens' own rows.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "isotope/engine.h"
#include "models/config.h"
#include "ops/ops.h"
#include "weights/checkpoint.h"

namespace isotope::models {

struct EncoderConfig {
  std::string arch;              ///< "bert", "roberta" …
  int64_t layers = 0, hidden = 0, ffn = 0, vocab = 0;
  int64_t context_length = 0;    ///< tokens that have a position
  int64_t types = 0;             ///< rows of the token type table; 0 = none
  int32_t first_position = 0;    ///< row of the position table that a sequence's first token takes
  int heads = 0, head_dim = 0;
  float norm_eps = 0;
  ops::Activation act = ops::Activation::gelu;
  int64_t labels = 0;            ///< outputs of the classification head; 0 = the model has none
  std::vector<std::string> label_names;  ///< [labels] or empty
  bool head_relu = false;        ///< the head's first layer ends in max(x, 0), not in tanh
  bool sigmoid = false;          ///< a score of one label is squashed into 0 to 1
};

/// One layer: attention, add, norm, two-layer feed-forward block, add, norm.
struct EncoderLayer {
  ops::Linear q, k, v, o;                        ///< [D, D] each
  std::vector<float> attn_norm, attn_norm_bias;  ///< [D]
  ops::Linear up, down;                          ///< [F, D], [D, F]
  std::vector<float> ffn_norm, ffn_norm_bias;    ///< [D]
};

struct EncoderGlobals {
  ops::Linear words, positions, types;           ///< [V, D], [P, D], [types, D]
  std::vector<float> norm, norm_bias;            ///< [D]
  ops::Linear head, labels;                      ///< [D, D], [labels, D]
};

class Encoder {
 public:
  EncoderConfig config;
  std::vector<EncoderLayer> layers;
  EncoderGlobals globals;

  /// The last layer's rows [T, D]. ops.begin(batch, nullptr) has been called; batch.positions are rows of the position table; `types` [T].
  ops::Tensor forward(ops::Ops&, const ops::Batch&, std::span<const int32_t> types) const;
  /// First tokens' rows [R, D] -> the head's outputs [R, labels], before any squashing.
  ops::Tensor classify(ops::Ops&, ops::Tensor first_rows) const;
};

/// Whether the files say that they hold an encoder.
bool is_encoder(const weights::Checkpoint&);
Result<EncoderConfig> parse_encoder_config(const weights::Checkpoint&, const std::map<std::string, std::string>& overrides = {});
Result<std::unique_ptr<Encoder>> load_encoder(const weights::Checkpoint&, ops::Ops&, const levers::Loading&, const EncoderConfig&,
                                              const std::function<void(const LoadProgress&)>& progress = {});

}  // namespace isotope::models
