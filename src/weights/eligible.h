// Which matrices are quantized when nobody names them: the linear layers, not what reads or writes tokens, routes or norms.
#pragma once

#include <string>
#include <string_view>

#include "isotope/result.h"
#include "weights/checkpoint.h"

namespace isotope::weights {

/// A matrix of a linear layer, in a float format, by the names of either container. In GGUF files stacks of experts as well; other files store stacks in
/// orders that their names do not tell.
bool eligible(const TensorEntry&, const Checkpoint&);

/// Whether a pattern of modules ("lm_head", "*.gate.*", "re:.*mlp.*") fits the module that a tensor belongs to. Shell-like; "re:" begins a regular expression.
bool names_module(std::string_view pattern, std::string_view tensor);
/// Refuses a pattern that fits nothing because its regular expression cannot be read. `source`: where the pattern came from, for the error.
Result<void> check_pattern(std::string_view pattern, std::string source);
/// "model.layers.0.mlp.up_proj" of "model.layers.0.mlp.up_proj.weight".
std::string_view module_of(std::string_view tensor);

}  // namespace isotope::weights
