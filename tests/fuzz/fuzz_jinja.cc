// Any bytes as a chat template, rendered over a small conversation. What the engine accepts must render or fail within its limits, twice the
// same, and its pieces must be valid UTF-8 that joins to the text.
#include <cstdlib>

#include "text/chat_template.h"
#include "text/jinja_unicode.h"
#include "text/jinja_vm.h"

namespace {

void require(bool ok) {
  if (!ok) std::abort();
}

using namespace isotope::text;

jinja::Value message(jinja::Budget& b, const char* role, const char* content) {
  auto d = std::make_shared<jinja::Dict>();
  d->set(b, jinja::make_string(b, "role", true), jinja::make_string(b, role));
  d->set(b, jinja::make_string(b, "content", true), jinja::make_string(b, content, true));
  d->set(b, jinja::make_string(b, "n", true), jinja::Value::integer(7));
  return jinja::make_dict(b, std::move(d));
}

// Smaller limits than a server's, so that one input takes milliseconds.
std::string render(const jinja::Program& program) {
  jinja::Budget b{.steps = 100'000, .max_string = size_t{1} << 20, .max_live = size_t{8} << 20, .max_items = 20'000};
  try {
    jinja::Context c;
    c.now_is_utc = true;
    c.variables["messages"] = jinja::make_list(b, {message(b, "user", "a <|x|> \xc3\xa9"), message(b, "assistant", "B\n\n c")});
    c.variables["add_generation_prompt"] = jinja::Value::boolean(true);
    jinja::Vm vm(program, b, std::move(c));
    const jinja::Value out = vm.run();
    const jinja::Str& s = jinja::str(out);
    require(jinja::sanitize(s.text) == s.text && s.points == jinja::count_points(s.text));
    uint32_t end = 0;
    for (const jinja::Span& span : s.content) {
      require(span.begin >= end && span.end > span.begin && span.end <= s.text.size());
      end = span.end;
    }
    return s.text;
  } catch (const jinja::Failure& f) {
    require(!f.what.empty() || f.fault == jinja::Fault::raised);
    return "error: " + f.what;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string source(reinterpret_cast<const char*>(data), size);
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed) {
    require(!parsed.error().what.empty() && !parsed.error().remedy.empty());
    return 0;
  }
  const jinja::Program program = jinja::compile(jinja::sanitize(source));
  require(render(program) == render(program));
  return 0;
}
