// A config.json as a model's folder would hold it. For tests.
#pragma once

#include <map>
#include <string>

#include "models/config.h"
#include "support/safetensors_writer.h"
#include "weights/checkpoint.h"

namespace isotope::models {

/// A folder with this config.json and nothing but one small tensor.
inline Result<ModelConfig> parse_json(const std::string& config, const std::map<std::string, std::string>& overrides = {}, int64_t served_len = 0,
                                      const std::string& generation = "") {
  const test::TempDir dir;
  dir.write("config.json", config);
  if (!generation.empty()) dir.write("generation_config.json", generation);
  const float one[] = {1};
  dir.write("model.safetensors", test::SafetensorsWriter().tensor("x", {1}, tensor::DType::f32, one).bytes());
  ISO_TRY(const auto c, weights::open_checkpoint(dir.path(), {}));
  return parse_config(*c, overrides, served_len);
}

}  // namespace isotope::models
