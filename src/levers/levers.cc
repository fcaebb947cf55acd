#include "levers/levers.h"

namespace isotope::levers {

Levers Levers::defaults() { return Levers{}; }

}  // namespace isotope::levers
