// Errors as values. Everything that can go wrong because of something outside the program (a file, a request, a setting, a
// socket) returns Result<T>; exceptions never cross a folder of src/, and the library never prints, exits or aborts.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace isotope {

enum class Code {
  invalid_argument,    // HTTP 400: the value itself is wrong
  not_found,           // HTTP 404
  unsupported,         // HTTP 400 / 501: a valid wish that this build, CPU or model cannot fulfil
  data_loss,           // a file is truncated, inconsistent or hostile
  resource_exhausted,  // HTTP 429: a limit of this server, worth retrying later
  unavailable,         // HTTP 503: loading or shutting down
  cancelled,           // the client went away or asked to stop
  internal,            // HTTP 500: our mistake
};

/// What went wrong, where the value came from, and what to do about it. One field for each, so that none is forgotten.
struct Error {
  Code code = Code::internal;
  std::string what;         ///< names the value: "prompt has 9000 tokens, the context holds 8192"
  std::string source = {};  ///< where it came from: a setting, "request field 'logit_bias'", "model.gguf, tensor blk.0.attn_q"
  std::string remedy = {};  ///< what to do: "shorten the prompt or raise --max-model-len"

  /// One line for logs, terminals and the C API: "what (source); remedy".
  std::string message() const;
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(Code code, std::string what, std::string source = {}, std::string remedy = {}) {
  return tl::unexpected<Error>(Error{code, std::move(what), std::move(source), std::move(remedy)});
}

}  // namespace isotope

#define ISO_CAT_(a, b) a##b
#define ISO_CAT(a, b) ISO_CAT_(a, b)
/// `ISO_TRY(auto x, f());` declares x with the value of f(), or returns its error from this function.
#define ISO_TRY(decl, ...)                                                                        \
  auto ISO_CAT(iso_r_, __LINE__) = (__VA_ARGS__);                                                 \
  if (!ISO_CAT(iso_r_, __LINE__)) return tl::unexpected(std::move(ISO_CAT(iso_r_, __LINE__)).error()); \
  decl = *std::move(ISO_CAT(iso_r_, __LINE__))
/// `ISO_CHECK_OK(f());` for a Result<void>.
#define ISO_CHECK_OK(...)                                                                    \
  do {                                                                                       \
    auto iso_r_ = (__VA_ARGS__);                                                             \
    if (!iso_r_) return tl::unexpected(std::move(iso_r_).error());                           \
  } while (0)
