// The ids of many texts, for a program that compares them: tokenizer_ids TOKENIZER.json. Reads texts from standard input, each as a line with its number of
// bytes and the bytes; answers each with a line "COUNT CRC32", or with the ids themselves where the line is "NUMBER ids".
#include <boost/crc.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "text/tokenizer.h"

int main(int argc, char** argv) {
  using namespace isotope;
  if (argc != 2) return 2;
  std::ifstream in(argv[1], std::ios::binary);
  VocabSource source;
  source.tokenizer_json.assign(std::istreambuf_iterator<char>(in), {});
  const auto tok = text::Tokenizer::create(source);
  if (!tok) return std::fprintf(stderr, "%s\n", tok.error().message().c_str()), 1;
  char line[64];
  std::string text;
  while (std::fgets(line, sizeof line, stdin)) {
    size_t bytes = 0;
    char word[16] = "";
    if (std::sscanf(line, "%zu %15s", &bytes, word) < 1 || bytes > size_t{1} << 30) return 2;
    text.resize(bytes);
    if (std::fread(text.data(), 1, bytes, stdin) != bytes) return 2;
    const std::vector<int32_t> ids = (*tok)->encode(text, true, true);
    if (word[0]) {
      for (const int32_t id : ids) std::printf("%d ", id);
      std::printf("\n");
    } else {
      boost::crc_32_type sum;
      sum.process_bytes(ids.data(), ids.size() * sizeof ids[0]);
      std::printf("%zu %u\n", ids.size(), unsigned(sum.checksum()));
    }
    std::fflush(stdout);
  }
  return 0;
}
