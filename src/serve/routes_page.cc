// The chat page at /: files of src/serve/page, built into the program. They load nothing from elsewhere, and the headers hold them to that.
#include <algorithm>
#include <iterator>

#include "serve/api.h"

namespace isotope::serve {
namespace {

struct Row {
  std::string_view name, body;
};
constexpr Row kFiles[] = {
#include "serve/page_files.inc"
};

struct Type {
  std::string_view ending, type;
};
constexpr Type kTypes[] = {{".html", "text/html; charset=utf-8"}, {".css", "text/css; charset=utf-8"}, {".js", "text/javascript; charset=utf-8"}};

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace

Reply ApiHandler::page(HttpCall& call) {
  std::string_view name = call.path;
  name = name == "/" ? "index.html" : name.substr(std::string_view("/page/").size());
  const auto* file = std::find_if(std::begin(kFiles), std::end(kFiles), [&](const Row& r) { return r.name == name; });
  if (!options_.page || file == std::end(kFiles)) return no_path(call);
  HttpResponse r{.body = std::string(file->body)};
  for (const Type& t : kTypes)
    if (name.ends_with(t.ending)) r.content_type = t.type;
  r.headers = {{"Content-Security-Policy", kPolicy}, {"X-Content-Type-Options", "nosniff"}, {"Referrer-Policy", "no-referrer"}, {"Cache-Control", "no-cache"}};
  return r;
}

}  // namespace isotope::serve
