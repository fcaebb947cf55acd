// The library's headers, with their warnings off.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#include <xgrammar/xgrammar.h>
#pragma GCC diagnostic pop
