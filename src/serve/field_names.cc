#include "serve/field_names.h"

namespace isotope::serve {

std::string FieldNames::own(std::string_view path) const {
  const std::pair<std::string, std::string>* best = nullptr;
  for (const auto& pair : pairs_) {
    const std::string& chat = pair.first;
    const bool fits = path.starts_with(chat) && (path.size() == chat.size() || path[chat.size()] == '.' || path[chat.size()] == '[');
    if (fits && (best == nullptr || chat.size() >= best->first.size())) best = &pair;
  }
  return best == nullptr ? std::string(path) : best->second + std::string(path.substr(best->first.size()));
}

ApiError FieldNames::own(ApiError e) const {
  const std::string path(field_path(e.error));
  if (path.empty()) return e;
  e.error = field_error(own(path), std::move(e.error.what), std::move(e.error.remedy), e.error.code);
  return e;
}

}  // namespace isotope::serve
