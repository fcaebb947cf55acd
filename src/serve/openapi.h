// The OpenAPI document, from the table of paths and the table of request fields.
#pragma once

#include <span>
#include <string>

#include "serve/json_body.h"

namespace isotope::serve {

struct PathDoc {
  const char* method;
  const char* path;            ///< "/*" at the end: one more segment
  const char* summary;
  const char* request = "";    ///< name of the request's schema; "": no body
  const char* response = "";   ///< name of the answer's schema; "": any object; "text": plain text
};

Json openapi_document(const std::string& version, std::span<const PathDoc> paths, bool keys);

}  // namespace isotope::serve
