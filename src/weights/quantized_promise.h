// What quantization_config says of a checkpoint's tensors, and whether they keep it. A file whose weights are not what its config.json says would load as
// numbers that mean nothing, or as numbers that mean something else than was published. Internal to quantized.cc.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weights/checkpoint.h"
#include "weights/quantized_decode.h"

namespace isotope::weights {

/// One way in which matrices are quantized; what the file leaves open is empty.
struct PromisedGroup {
  std::optional<int64_t> bits, group_size;  ///< group_size: columns of a scale; below 1: all of a row
  std::string type, strategy;               ///< compressed-tensors: "int" or "float"; "tensor", "channel", "group", "block" ...
  std::array<int64_t, 2> block{};           ///< rows and columns of a scale; 0: not said
  std::vector<std::string> targets;         ///< compressed-tensors: patterns and classes of modules; empty: all
};

struct Promise {
  std::string source;               ///< "DIR/config.json, quantization_config"
  std::string method;
  bool weights = true;              ///< false: only something else is quantized, as the KV cache
  bool per_module = false;          ///< single modules have settings of their own, which sizes are not compared with
  std::vector<PromisedGroup> groups;  ///< a matrix is of one of them; none: the method is all that is said
  std::vector<std::string> kept;    ///< patterns of modules that stay plain: "lm_head", "model.layers.0*", "re:.*self_attn.*"
  std::vector<std::string> only;    ///< patterns of the modules that are quantized; empty: all linear layers
  int64_t layers = INT64_MAX;       ///< of the model; layers behind them are heads for prediction, which may be of another make
};

/// Reads quantization_config, or what stands under "quantization" in hf_quant_config.json. Fails for sizes that are no whole numbers.
Result<Promise> read_promise(const nlohmann::json& quantization, std::string method, std::string source);

/// quantization_config, of the file or of the text model inside it; null if there is none.
const nlohmann::json* quantization_config(const Metadata&);
std::string quantization_method(const nlohmann::json& quantization);
/// The group that matrices of a module ("model.layers.0.mlp.up_proj") are promised to be quantized by; null: they are promised plain.
const PromisedGroup* group_for(const Promise&, const std::string& module);

/// Do the method and the layout of a quantized matrix belong together? `codes` is the tensor that shows the layout, `where` its file and name.
Result<void> check_kind(const Promise&, const TensorEntry& codes, Layout, const std::string& where);
/// Words of gptq and awq against each other's shapes and the stated bits. Shapes that say nothing are left to check_quantized().
Result<void> check_words_kept(const Promise&, const QuantizedParts&, const std::string& where);
/// The shapes of a matrix whose parts belong together against the stated bits, groups and blocks.
Result<void> check_sizes_kept(const Promise&, const QuantizedParts&, const std::string& where);

/// Plain matrices that were promised quantized: one of a kind of which others are, or all when there is none. `quantized`: names of the matrices found.
Result<void> check_plain(const Promise&, const Checkpoint&, const std::vector<std::string>& quantized);
/// A checkpoint whose config.json says nothing of quantization must hold no packed matrices.
Result<void> check_unannounced(const Checkpoint&);

}  // namespace isotope::weights
