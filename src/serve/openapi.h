// The OpenAPI document, from the table of paths and the table of request fields.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "serve/json_body.h"

namespace isotope::serve {

struct PathDoc {
  const char* method;
  const char* path;            ///< "/*" or "/:" at the end: a name follows
  const char* summary;
  const char* request = "";    ///< name of the request's schema; "": no body
  const char* response = "";   ///< name of the answer's schema; "": any object; "text": plain text
};

/// `models`: what a request may name; empty while the model is loading. `keys`: requests need one.
Json openapi_document(const std::string& version, std::span<const PathDoc> paths, const std::vector<std::string>& models, bool keys);

}  // namespace isotope::serve
