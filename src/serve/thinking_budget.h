// A limit on how long a model thinks: when the budget is used up, nothing but the text that closes the reasoning is let through, and the answer begins.
#pragma once

#include "serve/call.h"
#include "serve/fields.h"

namespace isotope::serve {

/// Puts the budget that the request (`thinking_token_budget`) or else the server asks for in front of call.spec.grammar. REQUIRES: call.reply and the
/// form are set. Fails where a request asks for one and it is not known how the model marks its reasoning.
Result<void> limit_thinking(const Fields&, const Frontend&, Call&);

}  // namespace isotope::serve
