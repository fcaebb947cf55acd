#include "tokenize_bench.h"

#include <boost/crc.hpp>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

namespace isotope::app {
namespace {

constexpr size_t kDocument = 4096;
using Ids = std::vector<int32_t>;

std::vector<std::string_view> documents(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t line = text.size() > kDocument ? text.find('\n', kDocument) : std::string_view::npos;
    const size_t n = line == std::string_view::npos ? text.size() : line + 1;
    out.push_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  return out;
}

/// Every thread takes each `threads`-th document.
void encode_all(const text::Tokenizer& tok, const std::vector<std::string_view>& docs, size_t threads, std::vector<Ids>& out) {
  const auto work = [&](size_t first) {
    for (size_t i = first; i < docs.size(); i += threads) out[i] = tok.encode(docs[i], false, true);
  };
  std::vector<std::thread> others;
  for (size_t t = 1; t < threads; t++) others.emplace_back(work, t);
  work(0);
  for (std::thread& t : others) t.join();
}

uint32_t crc(const std::vector<Ids>& all) {
  boost::crc_32_type sum;
  for (const Ids& ids : all) sum.process_bytes(ids.data(), ids.size() * sizeof ids[0]);
  return sum.checksum();
}

}  // namespace

Result<std::string> bench_tokenizer(const text::Tokenizer& tok, const TokenizeBench& o) {
  std::ifstream in(o.file, std::ios::binary);
  std::stringstream content;
  if (!in || !(content << in.rdbuf())) return fail(Code::not_found, "the text cannot be read or is empty", o.file, "name a file of plain text");
  const std::string text = content.str();
  const auto docs = documents(text);
  std::vector<Ids> ids(docs.size());
  const auto threads = size_t(o.threads);
  encode_all(tok, docs, threads, ids);
  const uint32_t sum = crc(ids);
  size_t tokens = 0;
  for (const Ids& d : ids) tokens += d.size();
  const auto begin = std::chrono::steady_clock::now();
  double seconds = 0;
  int rounds = 0;
  do {
    encode_all(tok, docs, threads, ids);
    rounds++;
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  } while (seconds < o.seconds);
  const nlohmann::ordered_json row{{"bytes", text.size()}, {"documents", docs.size()}, {"tokens", tokens},     {"crc32", sum},
                                   {"threads", threads},   {"rounds", rounds},         {"seconds", seconds}, {"bytes_per_s", double(text.size()) * rounds / seconds}};
  return row.dump();
}

}  // namespace isotope::app
