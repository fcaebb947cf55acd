// Source blocks of the checkpoint formats, taken apart into codes and scales for packing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/cpu/packs.h"

namespace isotope::ops {

/// One row of one unit (kernels/cpu/packs.h).
struct UnitRow {
  uint8_t codes[256];
  uint8_t small_a[16], small_b[16];
  uint16_t halves[4];
  float floats[2];
};

/// Reads the source block(s) of one unit. Null for packs that have no integer codes, and for i8g16.
using ReadUnit = void (*)(const uint8_t* block, UnitRow& to) noexcept;
ReadUnit unit_reader(kernels::cpu::Pack) noexcept;
/// Reads DType::i8_g16 for i8g16.
void read_i8_g16(const uint8_t* block, UnitRow& to) noexcept;

/// The scale of a DType::f8_g32 block as Pack::f8g128 holds it, times 2^120; nothing if the layout does not hold the block: large scales, codes for NaN.
std::optional<float> read_f8_scale(const uint8_t* block) noexcept;

/// Writes sixteen rows as one unit.
void write_unit(const kernels::cpu::PackRow&, std::span<const UnitRow, kernels::cpu::kLanes> rows, std::byte* unit) noexcept;

/// Expresses 32 values as int8 codes (biased by 128) and a float32 scale for each 16, such that code · scale gives back each value exactly.
/// False if they have no such form.
bool to_i8g16(std::span<const float, 32> values, UnitRow& to) noexcept;

}  // namespace isotope::ops
