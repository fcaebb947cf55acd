// Any bytes as a GGUF file: the parser and everything that reads what it accepted.
#include <cstdlib>

#include "weights/gguf.h"
#include "weights/vocab_source.h"

namespace isotope::weights {
namespace {

void require(bool ok) {
  if (!ok) std::abort();
}

void visit(const Metadata& m) {
  for (const std::string& k : m.keys()) {
    require(m.has(k) && !m.type_name(k).empty());
    (void)m.text(k, 50);
    (void)m.string(k), (void)m.integer(k), (void)m.number(k), (void)m.boolean(k);
    (void)m.strings(k), (void)m.integers(k), (void)m.numbers(k), (void)m.booleans(k), (void)m.bytes(k);
  }
  (void)vocab_from_gguf(m);
}

void visit(const GgufHeader& h, uint64_t size) {
  for (const TensorEntry& t : h.tensors) {
    require(t.rank >= 1 && t.rank <= 4 && t.offset <= size && t.bytes <= size - t.offset);
    uint64_t n = 1;
    for (int i = 0; i < t.rank; ++i) n *= uint64_t(t.shape[size_t(i)]);
    require(n != 0 && tensor::row_bytes(t.dtype, int64_t(n)) == t.bytes);
  }
  visit(h.metadata);
}

}  // namespace
}  // namespace isotope::weights

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace isotope::weights;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto whole = parse_gguf(file, size, "m.gguf");
  require(!whole || *whole);  // with the whole file at hand there is nothing to ask for
  if (whole)
    visit(**whole, size);
  else
    require(!whole.error().remedy.empty() && whole.error().message().size() < 2000);
  // A shorter head of the same file asks for more, or says the same.
  const auto part = parse_gguf(file.first(size / 2), size, "m.gguf");
  if (part && *part) require(bool(whole) && (*part)->tensors.size() == (*whole)->tensors.size());
  if (!part) require(!whole);
  return 0;
}
