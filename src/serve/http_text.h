// Small pieces of HTTP text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "serve/http_types.h"

namespace isotope::serve {

std::string lower(std::string_view text);
/// Cuts "/a%20b?q=1" into the decoded path and the raw query. False for anything but an absolute path or an absolute http URL.
bool split_target(std::string_view target, std::string& path, std::string& query);
/// The value of Access-Control-Allow-Origin: "*" when all may ask, the origin itself when it is listed, else "".
std::string allowed_origin(const std::vector<std::string>& allowed, std::string_view origin);
/// What a browser wants to know before it sends a request of another site.
Headers preflight_headers(const HttpCall&);

}  // namespace isotope::serve
