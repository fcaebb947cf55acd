// Turns planned work into one flat batch. The arrays are reused; a warm step allocates nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sequence.h"
#include "kv/manager.h"
#include "ops/batch.h"

namespace isotope::engine {

struct WorkItem {
  Sequence* seq = nullptr;
  int64_t tokens = 0;  ///< computed in this step, from seq->computed on
};

/// What a row of the logits is for.
struct LogitRow {
  Sequence* seq = nullptr;
  int64_t position = 0;  ///< of the token that was fed; the row predicts position + 1
  bool sample = false;   ///< the next token is drawn from it; else it scores the prompt
};

class BatchBuilder {
 public:
  /// `lookback`: tokens before each sequence's first row that the model looks at.
  BatchBuilder(const kv::Manager& kv, int64_t tokens, int64_t seqs, int64_t lookback = 0);
  /// REQUIRES: the block tables of each sequence hold computed + tokens. The batch is valid until the next call.
  const ops::Batch& build(std::span<const WorkItem>);
  std::span<const LogitRow> logit_rows() const { return rows_; }

 private:
  void add_rows(const WorkItem&, int32_t first_row);
  void add_slots(const WorkItem&, size_t seq_index);

  int block_size_;
  int64_t lookback_;
  size_t paged_groups_;
  std::vector<bool> windowed_;  ///< paged groups with a window
  std::vector<int32_t> tokens_, positions_, query_start_, context_len_, logit_index_, before_;
  std::vector<LogitRow> rows_;
  struct Group {
    std::vector<int32_t> table, slots;
  };
  std::vector<Group> groups_;
  std::vector<ops::Batch::Group> views_;
  std::vector<ops::Batch::Capture> captures_;
  int64_t stride_ = 0;
  ops::Batch batch_;
};

}  // namespace isotope::engine
