// What turns a few texts into vectors in one step: an encoder, or a decoder's final rows.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "isotope/engine.h"
#include "models/encoder.h"
#include "models/model.h"

namespace isotope::engine {

struct PoolItem {
  const PoolInput* input;
  Pooling pooling;
  bool normalize, classify, activation = true;
};

class PoolModel {
 public:
  virtual ~PoolModel() = default;
  /// One vector for each item, in their order. A text's vector does not depend on the others.
  virtual Result<PoolRequest::Vectors> run(std::span<const PoolItem>) = 0;
  /// Told once by the thread that will call run().
  virtual void adopt_caller() {}
};

std::unique_ptr<PoolModel> make_encoder_pool(std::unique_ptr<ops::Ops>, std::shared_ptr<const models::Encoder>);
/// Long texts are computed in chunks of `step_tokens`, with a KV cache of the step's own.
std::unique_ptr<PoolModel> make_decoder_pool(std::unique_ptr<ops::Ops>, std::shared_ptr<const models::Model>, KvType, int64_t step_tokens);

/// Rows [from, to) of x to one vector. Sums are in float64, in the rows' order.
std::vector<float> pool_rows(ops::Tensor x, int64_t from, int64_t to, Pooling);
/// To length 1; a vector of zeros stays.
void normalize(std::span<float>);

}  // namespace isotope::engine
