// isotope tokenize --bench: how fast a tokenizer cuts a text.
#pragma once

#include <string>

#include "isotope/result.h"
#include "text/tokenizer.h"

namespace isotope::app {

struct TokenizeBench {
  std::string file;       ///< plain text
  int threads = 1;
  double seconds = 2;     ///< whole rounds over the text until so much time has passed, after one that is not counted
};

/// One line of JSON: bytes, documents, tokens, crc32 of all ids, threads, rounds, seconds, bytes_per_s. The text is cut into documents behind the first
/// line feed that follows 4096 bytes; whoever compares programs cuts it likewise.
Result<std::string> bench_tokenizer(const text::Tokenizer&, const TokenizeBench&);

}  // namespace isotope::app
