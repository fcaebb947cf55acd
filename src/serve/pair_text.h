// How two texts become one input of a cross-encoder: the tokenizer's own template for pairs.
#pragma once

#include <vector>

#include "isotope/engine.h"
#include "serve/json_body.h"
#include "text/tokenizer.h"

namespace isotope::serve {

/// What stands around a single text: [CLS] and [SEP], BOS, EOS.
struct TextFrame {
  std::vector<int32_t> before, after;
  size_t size() const { return before.size() + after.size(); }
};
TextFrame frame_of(const text::Tokenizer&);

class PairTemplate {
 public:
  /// From tokenizer.json's post-processor; without one the texts stand one behind the other, each as it would by itself.
  static Result<PairTemplate> read(const VocabSource&, const TextFrame&);

  size_t added() const;   ///< tokens that belong to neither text
  PoolInput join(const std::vector<int32_t>& first, const std::vector<int32_t>& second) const;

 private:
  struct Item {
    int text = -1;        ///< 0, 1: that text; -1: `ids`
    int type = 0;
    std::vector<int32_t> ids = {};
  };
  static Result<std::vector<Item>> items_of(const Json& processor);
  std::vector<Item> items_;
};

/// Shortens texts of n1 and n2 tokens to `most` together, the longer one first, as `tokenizers` does by "longest_first".
void fit_pair(size_t& n1, size_t& n2, size_t most);

}  // namespace isotope::serve
