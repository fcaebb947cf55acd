// Any bytes as a safetensors file, a shard index or a config.json; the first byte chooses.
#include <cstdlib>

#include "weights/metadata.h"
#include "weights/safetensors.h"
#include "weights/vocab_source.h"

namespace isotope::weights {
namespace {

void require(bool ok) {
  if (!ok) std::abort();
}

template <class T>
void require_error(const Result<T>& r) {
  require(!r.error().remedy.empty() && !r.error().source.empty() && r.error().message().size() < 2000);
}

void file(std::span<const std::byte> content) {
  const auto h = parse_safetensors_file(content, "m.safetensors");
  if (!h) return require_error(h);
  uint64_t covered = 0;
  for (const TensorEntry& t : h->tensors) {
    require(t.rank >= 0 && t.rank <= 4 && t.offset <= content.size() && t.bytes <= content.size() - t.offset);
    uint64_t n = 1;
    for (int i = 0; i < t.rank; ++i) n *= uint64_t(t.shape[size_t(i)]);
    require(n * uint64_t(tensor::format(t.dtype).bytes) == t.bytes);
    covered += t.bytes;
  }
  require(covered < content.size());
}

void config(std::string_view text) {
  const auto m = Metadata::from_json(text, "config.json");
  if (!m) return require_error(m);
  for (const std::string& k : m->keys()) {
    (void)m->text(k, 50);
    (void)m->string(k), (void)m->integer(k), (void)m->number(k), (void)m->boolean(k);
    (void)m->strings(k), (void)m->integers(k), (void)m->numbers(k), (void)m->booleans(k), (void)m->bytes(k);
    (void)m->has(k + ".factor");
  }
  (void)vocab_from_directory("/nonexistent", *m);
}

}  // namespace
}  // namespace isotope::weights

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace isotope::weights;
  if (size == 0) return 0;
  const std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const std::string_view text(reinterpret_cast<const char*>(rest.data()), rest.size());
  if (data[0] % 3 == 0) file(rest);
  if (data[0] % 3 == 1)
    if (const auto index = parse_safetensors_index(text, "index.json"); !index) require_error(index);
  if (data[0] % 3 == 2) config(text);
  return 0;
}
