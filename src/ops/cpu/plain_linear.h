// Linear layers by the plainest means: weights held as float32, one accumulation order over K for any number of rows.
#pragma once

#include <memory>
#include <span>

#include "base/team.h"
#include "ops/ops.h"

namespace isotope::ops {

Result<std::unique_ptr<Weight>> pack_plain(const HostTensor&, std::span<const int32_t> rows);
void embed_row_plain(const Weight& table, int32_t row, float* out);
void linear_plain(Tensor x, const Linear&, Tensor out, base::Team&);

}  // namespace isotope::ops
