// Reads what make_goldens.py wrote, and loads tiny models for the suites of this folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "levers/groups.h"
#include "models/direct.h"
#include "models/model.h"
#include "weights/checkpoint.h"

namespace isotope::oracle {

/// One prompt of a family: golden.safetensors' arrays with the same names.
struct Prompt {
  std::vector<int32_t> ids, greedy, rows;
  std::vector<float> margin, logits;  ///< logits [rows, vocab]
  double tolerance = 1e-3;
  // Of multi-token-prediction heads, where the family has some.
  std::vector<int32_t> draft_rows = {};
  std::vector<std::vector<float>> draft_logits = {};  ///< of each head [draft_rows, vocab]
  double draft_tolerance = 1e-3;
};

struct Golden {
  std::string name;
  std::vector<Prompt> prompts;
  std::vector<std::vector<float>> hidden;  ///< of the prompt with hidden_rows tokens; [rows, D] each
  static constexpr size_t kHiddenPrompt = 1;
};

/// The folder with one sub-folder a family: the suite's --goldens argument, or the committed ones.
const std::string& goldens_folder();
std::vector<std::string> families();
/// Those with multi-token-prediction heads.
std::vector<std::string> families_with_heads();
Golden read_golden(const std::string& family);

/// A model that is ready to run, with all it needs.
struct Loaded {
  std::unique_ptr<weights::Checkpoint> checkpoint;
  std::unique_ptr<ops::Ops> ops;
  std::unique_ptr<models::Model> model;
};
Result<Loaded> load(const std::string& path, int64_t served_len, const ops::CpuOpsOptions&, const levers::Engram& = {.cache_dir = ""});

/// A tensor's rows in memory of their own, as floats one behind the other.
std::vector<float> rows_of(ops::Tensor);
/// Such rows as a tensor.
ops::Tensor as_tensor(std::vector<float>& rows, int64_t cols);

}  // namespace isotope::oracle
