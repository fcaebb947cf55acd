// The table avx512_amx and what must hold before it may run: the CPU has tiles, the system saves them, the process may use them, and they compute what the
// vector kernels compute.
#pragma once

#include "kernels/cpu/table.h"

namespace isotope::kernels::cpu {

/// avx512_bf16's table with the integer kernels through tiles.
const KernelTable& amx_table();

bool amx_in_cpu();     ///< AMX-TILE and AMX-INT8 in CPUID
bool amx_permitted();  ///< tile state in XCR0, and Linux grants it to this process (asked for here: tile registers need permission)
/// Some products through tiles against the vector kernels, bit for bit. False without permission. Runs once.
bool amx_works();

/// Whether both give the same bits for a few shapes of each integer pack, full and partial panels, gated and not. REQUIRES: both can run.
bool same_products(const KernelTable& a, const KernelTable& b);

}  // namespace isotope::kernels::cpu
