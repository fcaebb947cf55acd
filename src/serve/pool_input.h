// Texts and ids of a request to what the engine pools. Internal to the pooling endpoints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "serve/fields.h"
#include "serve/frontend.h"
#include "serve/pair_text.h"

namespace isotope::serve {

class PoolReader {
 public:
  /// Reads truncate_prompt_tokens and add_special_tokens. Fails when the model makes no vectors.
  static Api<PoolReader> create(const Fields&, Frontend&);

  const PoolingInfo& info() const { return info_; }
  int64_t tokens() const { return tokens_; }   ///< of everything that was read

  /// Errors name the field `at`; one that is too long says both numbers.
  Api<PoolInput> text(const std::string& text, const std::string& at);
  Api<PoolInput> ids(std::vector<int32_t> ids, const std::string& at);
  Api<PoolInput> pair(const std::string& first, const std::string& second, const std::string& at);

 private:
  PoolReader(Frontend& front, PoolingInfo info) : front_(&front), info_(std::move(info)) {}
  Api<PoolInput> counted(PoolInput, const std::string& at);

  Frontend* front_;
  PoolingInfo info_;
  TextFrame frame_;
  bool add_special_ = true;
  std::optional<size_t> most_;                 ///< longer inputs are cut to this
  int64_t tokens_ = 0;
};

}  // namespace isotope::serve
