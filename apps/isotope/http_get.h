// One GET of a server of this machine or another, for subcommands that ask a running `isotope serve`.
#pragma once

#include <string>

#include "isotope/result.h"

namespace isotope::app {

/// Body of a 200. Other statuses are errors that carry the server's own message. `url`: "http://HOST[:PORT]"; an empty key sends none.
Result<std::string> http_get(const std::string& url, const std::string& path, const std::string& api_key);
/// Percent-encoded, so that any text can stand in a path.
std::string url_escaped(const std::string& text);

}  // namespace isotope::app
