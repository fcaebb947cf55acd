// Binds names to slots, as Jinja's compiler does before it writes Python. A frame is the template itself, a loop body, a macro, a
// with block … A name that a frame stores gets a slot there, whatever the order at run time; whether that slot starts from the
// context, from an outer variable or empty depends on whether the frame reads or stores it first. So `{{ f() }}{% set tools = 1
// %}` hides `tools` of the context from f.
#pragma once

#include "text/jinja_ast.h"

namespace isotope::text::jinja {

/// Fills in plans, slots and the rows of filters and tests. Throws Failure for unknown filters and tests.
void bind_names(Program& program);

}  // namespace isotope::text::jinja
