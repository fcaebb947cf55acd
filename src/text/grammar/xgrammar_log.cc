#include "text/grammar/xgrammar_log.h"

#include <stdexcept>

namespace isotope::text {
namespace {
thread_local std::vector<std::string>* collecting = nullptr;
}

XgrammarWarnings::XgrammarWarnings() { collecting = &list_; }
XgrammarWarnings::~XgrammarWarnings() { collecting = nullptr; }

namespace {
void note(const std::string& message) {
  if (collecting != nullptr && collecting->size() < 16) collecting->push_back(message);
}
}  // namespace

/// For the library's hooks below, which live in its namespace.
void note_xgrammar_warning(const std::string& message) { note(message); }

}  // namespace isotope::text

// The hooks that the library is built to call (XGRAMMAR_LOG_CUSTOMIZE).
namespace xgrammar {

void LogFatalImpl(const std::string&, int, const std::string& message);
void LogMessageImpl(const std::string&, int, int level, const std::string& message);

void LogFatalImpl(const std::string&, int, const std::string& message) { throw std::runtime_error(message); }

void LogMessageImpl(const std::string&, int, int level, const std::string& message) {
  constexpr int kWarning = 2;
  if (level >= kWarning) isotope::text::note_xgrammar_warning(message);
}

}  // namespace xgrammar
