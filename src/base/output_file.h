// A file that is written whole or not at all.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "isotope/result.h"

namespace isotope::base {

/// What is written goes to a new file in the same folder, which commit() renames over `path`: a reader never sees half of it, and a failure leaves the old
/// file as it was. Symbolic links are followed. What exists and is no regular file (a pipe, a terminal, /dev/null), and a file that is this process' own
/// standard output, is written in place, never replaced. Errors begin with the path; `source` says where it came from ("--output").
class OutputFile {
 public:
  static Result<OutputFile> create(const std::string& path, const std::string& source);
  /// Whether create() would work, to be known before long work. Pipes and devices are not touched.
  static Result<void> check(const std::string& path, const std::string& source);
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;
  ~OutputFile();  ///< without commit(): the new file is removed

  const std::string& path() const;
  /// The first failure is kept, and commit() reports it.
  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  bool fine() const;  ///< false once something could not be written
  Result<void> commit();

 private:
  struct State;
  explicit OutputFile(std::unique_ptr<State>);
  std::unique_ptr<State> s_;
};

/// create(), write(), commit().
Result<void> write_output(const std::string& path, std::string_view text, const std::string& source);

}  // namespace isotope::base
