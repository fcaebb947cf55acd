// The interface by which grammars reach the sampler.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace isotope {

/// Decides which tokens may come next. One object for each sequence; called by one thread at a time.
class TokenMask {
 public:
  virtual ~TokenMask() = default;
  /// Fills `bits` [ceil(V/32)]: bit t of word t/32 is 1 where token t is allowed. Returns false when every token is allowed (bits untouched).
  virtual bool fill(std::span<uint32_t> bits) = 0;
  /// Advances by a token that was chosen. Returns false if the token was not allowed.
  virtual bool accept(int32_t token) = 0;
  /// True when the grammar is complete: only end tokens may follow.
  virtual bool finished() const = 0;
  /// Takes back the last n accepted tokens (speculative verification).
  virtual void rollback(int n) = 0;
  /// Why no token can be allowed any more, or ""; static text. The request then ends with it as its error.
  virtual std::string_view problem() const { return {}; }
};

}  // namespace isotope
