// *.case: requests and what their answers must hold, one block for each.
//
//   === name
//   POST /v1/completions
//   > Header: value
//   {"prompt": "…"}                      the body, any number of lines; or one of
//   @nested 1000                         {"x": [[[…]]]}; another field with @nested 1000 field
//   @repeat 5000 text                    {"prompt": "texttext…"}
//   --- 200
//   choices[0].text = "…"                equal
//   error.message ~ part                 the text contains
//   usage.prompt_tokens > 3              also <
//   choices # 2                          so many elements
//   ! choices[1]                         absent
//   header content-type ~ json           a header of the answer
//
// A stream's answer is read as {"events": [...], "done": true, "text": all texts and contents of choice 0 joined}.
#pragma once

#include <string>
#include <vector>

#include "serve/json_body.h"
#include "support/http_client.h"

namespace isotope::test {

struct ApiCase {
  std::string file, name, method, path, body;
  std::vector<std::pair<std::string, std::string>> headers;
  int status = 200;
  std::vector<std::string> checks;
};

std::vector<ApiCase> load_cases(const std::string& folder);
/// The answer as the checks see it.
serve::Json answer_json(const HttpReply&);
/// The value at a path such as "choices[0].text"; null pointer when absent.
const serve::Json* at_path(const serve::Json& value, std::string_view path);
/// "" when the check holds, else what is wrong.
std::string failed_check(const std::string& check, const serve::Json& answer, const HttpReply& reply);

}  // namespace isotope::test
