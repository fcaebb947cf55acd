#include "serve/answer_writer.h"

#include <algorithm>

namespace isotope::serve {

std::string named_event(const char* name, const Json& data) { return std::string("event: ") + name + "\ndata: " + dump(data) + "\n\n"; }

int64_t reasoning_tokens(const Frontend& front, const std::string& reasoning, int64_t completion_tokens) {
  if (reasoning.empty()) return 0;
  return std::min<int64_t>(completion_tokens, int64_t(front.tokenizer().encode(reasoning, false, false).size()));
}

}  // namespace isotope::serve
