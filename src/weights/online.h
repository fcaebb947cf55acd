// Quantizing while loading: a checkpoint whose matrices come out in another format than its files have. The files stay as they are.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weights/checkpoint.h"
#include "weights/scheme.h"

namespace isotope::weights {

/// What --online_quant_config says: {"global_quant_config": "ptpc_fp8", "layer_quant_config": {"*expert*": "mxfp4"}, "exclude_layer": ["lm_head"]}.
/// A module that `exclude` names stays; else the first pattern of `layers` that fits decides; else `global`, null = it stays.
struct OnlineConfig {
  const Scheme* global = nullptr;
  std::vector<std::pair<std::string, const Scheme*>> layers;
  std::vector<std::string> exclude;
};
Result<OnlineConfig> parse_online_config(const std::string& json);

/// The scheme of a matrix that can be quantized; empty: it stays.
using ChooseScheme = std::function<std::optional<Scheme>(const TensorEntry&)>;

/// Reads matrices of linear layers in the format that the configuration names; everything else as the files have it.
class OnlineCheckpoint final : public Checkpoint {
 public:
  OnlineCheckpoint(std::unique_ptr<Checkpoint>, const ChooseScheme&);

  std::string_view container() const override { return in_->container(); }
  const std::vector<TensorEntry>& tensors() const override { return tensors_; }
  const TensorEntry* find(std::string_view name) const override;
  const std::vector<std::string>& files() const override { return in_->files(); }
  const Metadata& metadata() const override { return in_->metadata(); }
  const VocabSource& vocab() const override { return in_->vocab(); }
  Result<Data> read(const TensorEntry&) const override;
  Result<void> check_unchanged(const TensorEntry& t) const override { return in_->check_unchanged(source(t)); }

  /// Whether the entry is one that is quantized.
  bool converts(const TensorEntry&) const;
  /// Columns of such an entry that share a scale; 0: all of a row.
  int64_t scale_columns(const TensorEntry& t) const { return plans_.find(t.name)->second.scheme.columns; }
  /// The source of such an entry in memory of its own, so that nothing more is read from its file.
  Result<Data> stage(const TensorEntry&) const;
  /// What read() gives, from staged bytes.
  Result<Data> convert(const TensorEntry&, const tensor::HostTensor& source) const;

  int quantized() const { return int(plans_.size()); }
  /// "210 matrices to ptpc_fp8, 24 to mxfp4; 3 stay as they are, their rows do not fill groups (first: …)"
  std::string summary() const { return summary_; }

 private:
  struct Plan {
    const TensorEntry* source;
    Scheme scheme;
  };
  const TensorEntry& source(const TensorEntry&) const;

  std::unique_ptr<Checkpoint> in_;
  std::vector<TensorEntry> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::map<std::string, Plan, std::less<>> plans_;
  std::string summary_;
};

/// Columns that share a scale in a matrix that is quantized, in its files or while it loads; 0: all of a row, or nobody knows.
int64_t scale_columns(const Checkpoint&, const TensorEntry&);

/// Plain weights as its quantization_config promises them, or hf_quant_config.json (`beside`, or null); the checkpoint itself where neither speaks of them.
/// Fails for settings that no reader of such files knows.
Result<std::unique_ptr<Checkpoint>> quantize_as_promised(std::unique_ptr<Checkpoint>, const nlohmann::json* beside = nullptr);

/// The checkpoint with the configuration applied. Fails when it quantizes nothing, which is never what was meant.
Result<std::unique_ptr<Checkpoint>> quantize_online(std::unique_ptr<Checkpoint>, const std::string& json);

}  // namespace isotope::weights
