// What a user names as an input: a regular file, but also a pipe or a device such as /dev/stdin.
#pragma once

#include <cstdint>
#include <string>

#include "isotope/result.h"

namespace isotope::base {

/// The whole content of `path`. Folders, unreadable files and more than `limit` bytes are errors that begin with the path; `source` says where the path
/// came from ("--ids-file"). A device without an end stops at the limit. Opening a pipe waits for its writer.
Result<std::string> read_input(const std::string& path, uint64_t limit, const std::string& source);

}  // namespace isotope::base
