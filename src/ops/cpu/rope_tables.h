// cos and sin of the batch's positions, computed once a step for each distinct rotary embedding instead of once a layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/arena.h"
#include "base/team.h"
#include "ops/ops.h"

namespace isotope::ops {

/// cos and sin [rot / 2] of one position, as RopeTables has them.
void turn_by(const Rope&, int32_t position, float* cos, float* sin) noexcept;

class RopeTables {
 public:
  struct Table {
    const float *cos = nullptr, *sin = nullptr;  ///< [T][rot / 2]
  };

  void begin() { ++step_; }
  /// Tables live in the arena until its next reset. Angles are float32(position) * inv_freq rounded to float32, as the reference implementations
  /// compute them; their cos and sin are those of exactly that float, at any position.
  Table get(const Rope&, std::span<const int32_t> positions, base::Arena&, base::Team&);

 private:
  struct Entry {
    std::vector<float> inv_freq;
    float scale = 1.0f;
    int rot = 0;
    uint64_t step = 0;
    Table table;
  };
  Entry& find(const Rope&);

  uint64_t step_ = 1;
  std::vector<Entry> entries_;
};

}  // namespace isotope::ops
