#include "weights/storage.h"

#include <cstdlib>
#include <new>

#include "weights/json.h"

namespace isotope::weights {

namespace {

constexpr size_t kBufferAlignment = 64;

struct Free {
  void operator()(std::byte* p) const noexcept { std::free(p); }
};

// Alignment the elements of a format need to be read in place. Blocks are read bytewise.
size_t natural_alignment(tensor::DType t) {
  const tensor::Format& f = tensor::format(t);
  return f.block == 1 ? size_t(f.bytes) : 1;
}

}  // namespace

Result<void> Storage::add(base::File file) {
  std::unique_ptr<base::MappedFile> map;
  if (mapped_) {
    ISO_TRY(base::MappedFile m, base::MappedFile::map(file));
    map = std::make_unique<base::MappedFile>(std::move(m));
  }
  paths_.push_back(file.path());
  files_.push_back(std::make_shared<const Open>(Open{std::move(file), std::move(map)}));
  return {};
}

Result<Checkpoint::Data> Storage::read(const TensorEntry& t) const {
  const std::shared_ptr<const Open>& f = files_[size_t(t.file)];
  Checkpoint::Data d;
  d.view = {t.dtype, nullptr, size_t(t.bytes), t.shape, t.rank};
  if (f->map && t.offset % natural_alignment(t.dtype) == 0) {
    ISO_CHECK_OK(f->file.check_unchanged());
    d.view.data = f->map->bytes().data() + t.offset;
    d.mapped = true;
    d.release = [map = f->map.get(), offset = t.offset](size_t from, size_t n) { map->release(offset + from, n); };
    // The view holds the mapping; when the last holder lets go, the tensor's pages leave this process' memory (the page cache
    // keeps them).
    d.keep = std::shared_ptr<void>(const_cast<void*>(d.view.data),
                                   [f, offset = t.offset, n = t.bytes](void*) { f->map->release(offset, n); });
    return d;
  }
  const size_t room = (size_t(t.bytes) + kBufferAlignment) / kBufferAlignment * kBufferAlignment;
  std::unique_ptr<std::byte, Free> buffer(static_cast<std::byte*>(std::aligned_alloc(kBufferAlignment, room)));
  if (!buffer)
    return fail(Code::resource_exhausted, "no memory for " + std::to_string(t.bytes) + " bytes",
                f->file.path() + ", tensor " + quote_name(t.name),
                "free memory, or turn memory mapping on (ATOM_DISABLE_MMAP=false)");
  ISO_CHECK_OK(f->file.read(t.offset, {buffer.get(), size_t(t.bytes)}));
  d.view.data = buffer.get();
  d.keep = std::shared_ptr<std::byte>(std::move(buffer));
  return d;
}

}  // namespace isotope::weights
