// What `isotope quantize` is going to do: every tensor with its format before and after.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "isotope/result.h"
#include "levers/levers.h"
#include "weights/checkpoint.h"
#include "weights/convert.h"
#include "weights/quantize_types.h"

namespace isotope::app {

struct QuantizeOptions {
  std::string model, out, type;
  std::string output_type, embedding_type, pre;
  std::vector<std::string> tensor_types;  ///< PATTERN=TYPE
  std::vector<std::string> ignore;        ///< patterns of matrices that stay as they are
  bool pure = false, allow_requantize = false, force = false, dry_run = false;
  int threads = 0;
  double shard_gb = 5;
  bool gguf() const { return out.ends_with(".gguf"); }
};

/// One line of the table: tensors of a kind.
struct PlanLine {
  std::string kind;
  int64_t tensors = 0, parameters = 0, before = 0, after = 0;
  std::map<std::string, int64_t> types = {};  ///< of the new file, with their parameters
};

struct QuantizePlan {
  std::string path;  ///< of the model
  std::unique_ptr<weights::Checkpoint> files;
  // GGUF
  weights::GgufValues values;
  std::vector<weights::Conversion> conversions;
  // safetensors
  std::vector<weights::SchemeChoice> choices;
  const weights::Scheme* scheme = nullptr;

  std::string type;                 ///< "Q4_K_M", "ptpc_fp8"
  double nominal_bits = 0;          ///< of the format that the type is named after
  std::vector<PlanLine> lines;
  std::vector<std::string> remarks; ///< tensors that get another format than the type says, and why
  int64_t parameters = 0, before = 0, after = 0;
  int64_t working = 0;              ///< bytes of memory that the conversion needs
};

Result<QuantizePlan> plan_quantize(const QuantizeOptions&, const levers::Levers&, const std::string& path);
/// The table, sizes and bits, for people.
std::string describe(const QuantizePlan&);

}  // namespace isotope::app
