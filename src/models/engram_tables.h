// N-gram tables of a model: where they lie, which rows a step needs, and how those come to the layers.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "isotope/result.h"
#include "models/engram_config.h"
#include "models/engram_hash.h"
#include "models/engram_reader.h"
#include "ops/batch.h"
#include "ops/sparse.h"
#include "weights/checkpoint.h"

namespace isotope::models {

/// Shared by all that run the model; steps are independent of each other.
class EngramTables {
 public:
  /// REQUIRES: config.map is set.
  static Result<std::shared_ptr<EngramTables>> make(const EngramConfig&);
  /// Takes a table over: the views stay where the checkpoint has them. Values [rows, dim]: E4M3 with E8M0 scales [rows, dim / block] or without, BF16, F16, F32.
  Result<void> set(int table, weights::Checkpoint::Data values, weights::Checkpoint::Data scales, const std::string& name);

  const EngramHash& hash() const { return hash_; }
  const ops::RowTable& table(int i) const { return tables_[size_t(i)]; }
  Result<void> intact() const;
  EngramStats stats() const;
  int64_t bytes() const;

 private:
  friend class EngramStep;
  /// What a step needs besides the model's memory; used again by later ones.
  struct Memory {
    std::vector<int64_t> rows;                 ///< [tables, T, columns]
    std::vector<int32_t> ids;                  ///< compressed, of one sequence
    std::vector<float> staged[2];              ///< of tables in turn: [T, columns * dim]
    std::vector<EngramReader::Job> jobs;       ///< [tables]
  };
  EngramTables(EngramConfig c, EngramHash h) : config_(std::move(c)), hash_(std::move(h)), tables_(config_.layers.size()) {}
  std::unique_ptr<Memory> take_memory();
  void give_back(std::unique_ptr<Memory>);

  EngramConfig config_;
  EngramHash hash_;
  std::vector<ops::RowTable> tables_;
  std::vector<std::shared_ptr<void>> held_;    ///< mappings
  std::string source_;
  std::atomic<bool> damaged_{false};
  std::atomic<int64_t> rows_{0}, bytes_{0}, nanoseconds_{0};
  std::unique_ptr<EngramReader> reader_;       ///< null: rows are read within layers
  std::mutex mutex_;
  std::vector<std::unique_ptr<Memory>> free_;
};

/// One forward pass: computes all rows, has their memory come, and hands them out layer by layer.
class EngramStep {
 public:
  /// REQUIRES: the batch has the tokens before its sequences, as Model::lookback() says.
  EngramStep(EngramTables&, ops::SparseOps&, const ops::Batch&);
  ~EngramStep();
  EngramStep(const EngramStep&) = delete;
  EngramStep& operator=(const EngramStep&) = delete;

  /// The rows of table i for each token, side by side: [T, columns * dim]. Tables one after the other, each once; valid until the next call.
  ops::Tensor take(int i);

 private:
  void find_rows(const ops::Batch&);
  ops::RowsArgs args(int i) const;
  void read_ahead(int i);

  EngramTables& t_;
  ops::SparseOps& sparse_;
  int64_t tokens_ = 0;
  std::unique_ptr<EngramTables::Memory> m_;
};

}  // namespace isotope::models
