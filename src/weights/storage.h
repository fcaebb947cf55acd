// The files of a checkpoint, opened; hands out tensor bytes as views into a mapping or as buffers that were read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "isotope/result.h"
#include "weights/checkpoint.h"

namespace isotope::weights {

class Storage {
 public:
  /// `mapped`: map files that are added (lever ATOM_DISABLE_MMAP off).
  explicit Storage(bool mapped) : mapped_(mapped) {}

  Result<void> add(base::File file);
  const std::vector<std::string>& paths() const { return paths_; }
  const base::File& file(int i) const { return files_[size_t(i)]->file; }

  /// Thread-safe. REQUIRES: the entry's range lies in its file as it was when it was opened.
  Result<Checkpoint::Data> read(const TensorEntry&) const;

 private:
  struct Open {
    base::File file;
    std::unique_ptr<base::MappedFile> map;  ///< null when read by position
  };
  bool mapped_;
  std::vector<std::shared_ptr<const Open>> files_;  // shared with the Data that is out
  std::vector<std::string> paths_;
};

}  // namespace isotope::weights
