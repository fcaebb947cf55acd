// What a model's generation_config.json suggests where a request says nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "isotope/options.h"
#include "isotope/result.h"
#include "serve/json_body.h"

namespace isotope::serve {

struct SamplingDefaults {
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int32_t> top_k;
  std::optional<int64_t> max_tokens;  ///< max_new_tokens: also the most a request gets when it names no number

  std::optional<uint64_t> seed;       ///< of requests that name none; never from a model's file

  enum class Names { any, only_known };
  /// A key of the wrong type or outside its range is an error that names `source`. A model's file has keys for other programs, which are ignored
  /// (`any`); with `only_known` they are errors.
  static Result<SamplingDefaults> parse(std::string_view json, const std::string& source, Names names = Names::any);
  /// Takes every value that `over` has.
  void merge(const SamplingDefaults& over);
  void apply(SamplingParams& p) const;
  Json to_json() const;
};

}  // namespace isotope::serve
