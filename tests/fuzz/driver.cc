// Runs a fuzz target without libFuzzer, where clang cannot compile what the target needs (xgrammar): inputs of some folders, then random changes of them.
//   drive_X [--endpoint=…] SECONDS SEED LAST FOLDER…   LAST is a file that holds the input of the moment, whatever happens
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);

namespace {

constexpr size_t kLongest = 4096;

using Random = std::mt19937_64;

std::vector<std::string> read_inputs(int argc, char** argv) {
  std::vector<std::string> out;
  for (int i = 0; i < argc; i++) {
    std::error_code none;
    for (const auto& file : std::filesystem::directory_iterator(argv[i], none)) {
      std::ifstream in(file.path(), std::ios::binary);
      out.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// A word of the input, between two characters that are no letters.
std::string word_of(const std::string& s, Random& random) {
  size_t begin = s.empty() ? 0 : random() % s.size(), end = begin;
  while (begin > 0 && std::isalnum(static_cast<unsigned char>(s[begin - 1]))) begin--;
  while (end < s.size() && std::isalnum(static_cast<unsigned char>(s[end]))) end++;
  return s.substr(begin, end - begin);
}

void change(std::string& s, const std::vector<std::string>& all, Random& random) {
  static const std::vector<std::string> kOdd = {"0", "-1", "1e999", "2147483648", "9223372036854775808", "null", "true", "[]", "{}", "\"\"", "\\ud800", "\xFF", "\xE4\xBD", "((((", "[[[[",
                                                "{\"$ref\":\"#\"}", "*", "{0,65536}", "\n", "\\", "é", "👍", "<|im_end|>", "</think>", "<tool_call>"};
  const size_t at = s.empty() ? 0 : random() % (s.size() + 1), n = 1 + random() % 12;
  const std::string& other = all[random() % all.size()];
  switch (random() % 9) {
    case 0: if (at < s.size()) s[at] = char(random()); break;
    case 1: if (at < s.size()) s[at] = char(s[at] ^ (1 << random() % 8)); break;
    case 2: s.erase(std::min(at, s.size()), n); break;
    case 3: s.insert(at, kOdd[random() % kOdd.size()]); break;
    case 4: s.insert(at, word_of(other, random)); break;
    case 5: s = s.substr(0, at) + other.substr(other.empty() ? 0 : random() % other.size()); break;
    case 6: {  // a stretch again and again
      const std::string part = s.substr(std::min(at, s.size()), n);
      for (size_t i = random() % 60; i > 0 && s.size() < kLongest; i--) s.insert(std::min(at, s.size()), part);
      break;
    }
    case 7: {  // one number for another
      const size_t digit = s.find_first_of("0123456789", at);
      if (digit != std::string::npos) s.replace(digit, s.find_first_not_of("0123456789", digit) - digit, kOdd[random() % 5]);
      break;
    }
    default: {  // one word for another
      const std::string old = word_of(s, random), fresh = word_of(other, random);
      const size_t found = old.empty() ? std::string::npos : s.find(old);
      if (found != std::string::npos) s.replace(found, old.size(), fresh);
    }
  }
  if (s.size() > kLongest) s.resize(kLongest);
}

/// A mapped file: what is written is there even when the process dies the next moment.
class Last {
 public:
  explicit Last(const char* path) {
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0 || ftruncate(fd, off_t(kLongest)) != 0) std::exit(2);
    map_ = static_cast<char*>(mmap(nullptr, kLongest, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    if (map_ == MAP_FAILED) std::exit(2);
  }
  void hold(const std::string& s) {
    std::memset(map_, 0, kLongest);
    std::memcpy(map_, s.data(), std::min(s.size(), kLongest));
  }

 private:
  char* map_;
};

void run(Last& last, const std::string& input) {
  last.hold(input);
  const std::vector<uint8_t> exact(input.begin(), input.end());  // so that a read past the end is seen
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (LLVMFuzzerInitialize) LLVMFuzzerInitialize(&argc, &argv);
  int at = 1;
  while (at < argc && std::strncmp(argv[at], "--", 2) == 0) at++;
  if (argc - at < 4) return std::fprintf(stderr, "usage: %s SECONDS SEED LAST FOLDER...\n", argv[0]), 2;
  const double seconds = std::atof(argv[at]);
  Random random(std::strtoull(argv[at + 1], nullptr, 10));
  Last last(argv[at + 2]);
  const std::vector<std::string> all = read_inputs(argc - at - 3, argv + at + 3);
  if (all.empty()) return std::fprintf(stderr, "%s: no inputs\n", argv[0]), 2;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  size_t runs = 0;
  for (; runs < all.size() && std::chrono::steady_clock::now() < end; runs++) run(last, all[runs]);
  for (; std::chrono::steady_clock::now() < end; runs++) {
    std::string input = all[random() % all.size()];
    for (size_t n = 1 + random() % 5; n > 0; n--) change(input, all, random);
    run(last, input);
  }
  std::printf("%zu runs without a finding\n", runs);
  return 0;
}
