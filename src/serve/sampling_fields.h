// The request fields that shape sampling and output, the same for completions and chat.
#pragma once

#include "serve/call.h"
#include "serve/fields.h"

namespace isotope::serve {

/// Fills spec.sampling, spec.n, spec.best_of, spec.output (stops, special tokens), spec.priority, spec.deadline_ms, spec.share_key, spec.cache_salt and the answer's switches.
Result<void> parse_common(const Fields&, Frontend&, const CallLimits&, Call&);
/// Wishes that cannot be fulfilled are refused by name, never ignored.
Result<void> refuse_unsupported(const Fields&);
/// `max_tokens` or `max_completion_tokens`, whichever is there (the second wins); unset when neither.
Result<std::optional<int64_t>> parse_max_tokens(const Fields&);
/// Truncates where asked, then checks prompt and output against the context and sets prompt.max_tokens. `field` names the prompt.
Api<void> fit_context(const Fields&, const Frontend&, const Call&, std::optional<int64_t> max_tokens, const std::string& field, Prompt&);

}  // namespace isotope::serve
