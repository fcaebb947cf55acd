// A generation under way, as the HTTP server sees it: it wakes, pumps and writes; here tokens become chunks or one body.
#pragma once

#include <functional>
#include <memory>

#include "serve/answer_format.h"
#include "serve/answer_writer.h"
#include "serve/http_types.h"
#include "serve/job.h"

namespace isotope::serve {

enum class Outcome { completed, failed, abandoned };

struct AnswerOptions {
  size_t mailbox_bytes = 4 << 20;               ///< how far a reader may fall behind
  WriterFactory writer;                         ///< another API's words; null: those of completions and chat completions
  std::function<void(const Call&, const Job&, Outcome)> ended;   ///< once, when the answer is over
};

/// Starts the call. Fails when the engine refuses it.
Api<std::unique_ptr<Pending>> start_answer(Call, Frontend&, AnswerOptions);

HttpResponse json_response(const Json& body, int status = 200);
/// 429 and 503 carry Retry-After.
/// `body`: the error in another shape.
HttpResponse error_response(const ApiError&, int retry_after_s = 1, const Json& body = nullptr);

}  // namespace isotope::serve
