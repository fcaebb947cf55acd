// What xgrammar has to say, caught instead of printed: its warnings mean that a part of a grammar was left out.
#pragma once

#include <string>
#include <vector>

namespace isotope::text {

/// Collects the warnings of this thread while it lives. Not nested.
class XgrammarWarnings {
 public:
  XgrammarWarnings();
  ~XgrammarWarnings();
  XgrammarWarnings(const XgrammarWarnings&) = delete;
  const std::vector<std::string>& list() const { return list_; }

 private:
  std::vector<std::string> list_;
};

}  // namespace isotope::text
