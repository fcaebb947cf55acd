// Embeddings and scores under way, as the HTTP server sees them: nothing waits on a thread while the engine computes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "serve/http_types.h"
#include "serve/frontend.h"

namespace isotope::serve {

/// Vectors to the answer's text, some of them at a time, so that a long answer holds up no other connection.
class PoolWriter {
 public:
  virtual ~PoolWriter() = default;
  /// Adds what it makes of up to `most` vectors; true when the text is whole.
  virtual bool write(const PoolRequest::Vectors&, size_t most, std::string& out) = 0;
};

struct PoolCall {
  PoolRequest request;
  std::unique_ptr<PoolWriter> writer;
};

/// Starts the call. `ended` is called once, when the answer is over. Fails when the engine refuses it.
Result<std::unique_ptr<Pending>> start_pool(PoolCall, Engine&, std::function<void(bool done)> ended);

}  // namespace isotope::serve
