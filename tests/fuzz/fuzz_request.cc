// Any bytes as the body of a request: as a completion, a chat, tokens, and as a chat template's messages. What is accepted must be within the
// limits that the engine is promised; what is refused must make an error body that is valid JSON.
#include <cmath>
#include <cstdlib>

#include "serve/call.h"
#include "serve/frontend.h"
#include "support/byte_tokenizer.h"
#include "support/fake_engine.h"

namespace {

using namespace isotope;

void require(bool ok) {
  if (!ok) std::abort();
}

serve::Frontend& front() {
  static auto* engine = new test::FakeEngine();
  static auto made = serve::Frontend::create(*engine, std::make_unique<test::ByteTokenizer>(), {});
  require(made.has_value());
  return **made;
}

void check_call(const serve::Api<serve::Call>& call) {
  if (!call) {
    const std::string body = serve::dump(serve::error_body(call.error()));
    require(serve::parse_json(body).has_value() && body.size() < 4000 && !call.error().error.what.empty());
    return;
  }
  const SamplingParams& p = call->spec.sampling;
  const int64_t context = front().max_model_len(), vocab = front().vocab_size();
  for (const float v : {p.temperature, p.top_p, p.min_p, p.typical_p, p.repetition_penalty, p.dry_base}) require(std::isfinite(v) && v >= 0);
  require(p.top_k >= -1 && p.logprobs <= 20 && p.min_tokens >= 0 && p.seed.has_value());
  for (const serve::Prompt& prompt : call->spec.prompts) {
    require(!prompt.ids.empty() && int64_t(prompt.ids.size()) + prompt.max_tokens <= context && prompt.max_tokens >= 0);
    for (const int32_t id : prompt.ids) require(id >= 0 && id < vocab);
  }
  for (const auto& [id, bias] : p.logit_bias) require(id >= 0 && id < vocab && std::isfinite(bias));
  require(call->spec.prompts.size() * size_t(call->spec.best_of) <= 4096 && call->spec.n <= call->spec.best_of);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto body = serve::parse_json({reinterpret_cast<const char*>(data), size});
  if (!body) {
    require(!body.error().what.empty());
    return 0;
  }
  check_call(serve::parse_completion(*body, front()));
  check_call(serve::parse_chat(*body, front()));
  (void)serve::SamplingDefaults::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  return 0;
}
