// From tensor rows to packed weights: finds each row's tensor, checks names and shapes both ways, then reads and packs in parallel.
#pragma once

#include <functional>

#include "models/arch.h"
#include "weights/checkpoint.h"

namespace isotope::models {

/// Fills `out.layers` and `out.globals`. Fails when a tensor is missing or has another shape, and, under strict coverage, when the file holds
/// tensors that no row names. Source pages are given back tensor by tensor.
Result<void> load_weights(const weights::Checkpoint&, ops::Ops&, const levers::Loading&, const Arch&, Transformer& out,
                          const std::function<void(const LoadProgress&)>& progress);

class Planner;
/// What load_weights() asks a checkpoint for.
Result<void> plan_weights(Planner&, const Arch&, Transformer& out);

/// The order of rows that undoes GGUF's pairing in `heads` heads of `head_dim` rows: result[r] is the file's row for our row r. In the file the
/// partners of a turning pair are neighbours (2i, 2i+1); here they are (i, i + rot/2). Rows at or above `rot` stay.
std::vector<int32_t> halves_from_pairs(int64_t heads, int64_t head_dim, int64_t rot);

}  // namespace isotope::models
