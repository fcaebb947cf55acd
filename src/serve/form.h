// The form of an answer, made ready: what the request asks for, after the reasoning that the model may write first.
#pragma once

#include "serve/call.h"

namespace isotope::serve {

/// Sets call.spec.grammar from call.form. Errors name the field and the keyword.
Result<void> prepare_form(Frontend&, Call&);

}  // namespace isotope::serve
