// One row for each tensor of a model: where it goes, what each container calls it, its shape, and when it must be there. The loader, the coverage check
// and packing read these rows; nothing else knows a tensor's name.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "models/config.h"
#include "models/layer.h"

namespace isotope::models {

/// A size that the configuration turns into a number.
enum class Size : uint8_t { one, hidden, ffn, vocab, head, q, kv };
int64_t size_of(Size, const ModelConfig&);

/// The tensor may also be rows of a larger one: part `index` of `parts`, stacked along the first dimension.
struct Fused {
  std::string_view gguf, hf;
  std::array<Size, 3> parts{};
  int count = 0, index = 0;
};

/// `Owner` is Layer or Globals. Exactly one of `weight`, `bias` and `vector` is set.
template <class Owner>
struct TensorRow {
  std::string_view gguf, hf;                          ///< names within the layer (or the model)
  Size rows = Size::one, cols = Size::one;            ///< shape [rows, cols]; [rows] for vectors and biases
  ops::Linear Owner::*weight = nullptr;
  ops::Linear Owner::*bias = nullptr;
  std::vector<float> Owner::*vector = nullptr;
  Presence ModelConfig::*when = nullptr;              ///< null = always there
  bool turns = false;                                 ///< rows of q and k, which rotary embedding pairs up
  Fused fused = {};
};
using LayerRow = TensorRow<Layer>;
using GlobalRow = TensorRow<Globals>;

std::span<const GlobalRow> global_rows();
std::span<const LayerRow> dense_rows();      ///< Llama, Mistral, SmolLM, Qwen 2, Gemma 1, Phi 3, Granite
std::span<const LayerRow> qk_norm_rows();    ///< the same with a norm on each head of q and k: Qwen 3
std::span<const LayerRow> sandwich_rows();   ///< Gemma 2
std::span<const LayerRow> sandwich_qk_rows();///< Gemma 3
std::span<const LayerRow> post_norm_rows();  ///< OLMo 2

/// Tensors a file may hold that carry no weights of the model: rope tables (read with the configuration), buffers old exports kept, and the parts of a
/// vision-language model that text does not need.
bool ignorable(std::string_view name);

}  // namespace isotope::models
