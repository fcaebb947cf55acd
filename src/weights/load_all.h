// Walks a checkpoint's tensors in parallel and hands each to its consumer, which packs it. Peak memory: the tensors in flight
// besides the packed result.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "isotope/engine.h"
#include "isotope/result.h"
#include "weights/checkpoint.h"
#include "weights/prefetcher.h"

namespace isotope::weights {

/// One unit of work: the tensors that make up one parameter (fused ones need several) and what to do with them.
struct LoadJob {
  std::vector<const TensorEntry*> tensors;
  /// Called on any worker, with the tensors' data in the same order. Data that is kept stays valid; the rest is given back on
  /// return.
  std::function<Result<void>(std::span<Checkpoint::Data>)> consume;
};

struct LoadReport {
  int threads = 0;    ///< workers that ran
  int64_t bytes = 0;  ///< of tensor data handed out
  double seconds = 0;
  bool mapped = false;  ///< reader = mmap, otherwise read
  int advised = 0;      ///< files with fadvise hints
  PrefetchReport prefetch;
  int quantized = 0;  ///< matrices that changed their format on the way (weights/online.h)
  int streamed = 0, stream_threads = 0, most_in_flight = 0;  ///< of those: finished by ATOM_ONLINE_QUANT_STREAMING's workers
};

/// One line for the log: "235.2 MiB in 0.41 s: reader=mmap, 2 threads; prefetch 1 of 1 files, 0.0 MiB read, 235.2 MiB warm, 1
/// reader".
std::string describe(const LoadReport&);

/// Reads a job's tensors and consumes them. A file that is cut, written to or cannot be read meanwhile is an error that names it, not a fault; what
/// `consume` made is then not to be used, nor the checkpoint.
Result<void> load_one(const Checkpoint&, const LoadJob&);

using Progress = std::function<void(const LoadProgress&)>;

/// Runs all jobs in the order of their data in the files, on ATOM_LOADER_NUM_THREADS workers ("ckpt-loader"; no more than CPUs
/// this process may use, since more would only hold more tensors in memory), or inline when that is 1. Prefetching and hints run
/// beside it as the levers say. The first error stops the rest and is returned. `progress` is called from one thread at a time,
/// last with done == total.
Result<LoadReport> load_all(const Checkpoint&, std::vector<LoadJob> jobs, const levers::Loading&, const Progress& progress = {});

}  // namespace isotope::weights
