#include "serve/call.h"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "serve/cache_fields.h"
#include "serve/form.h"
#include "serve/sampling_fields.h"
#include "serve/thinking_budget.h"
#include "serve/tool_fields.h"

namespace isotope::serve {
namespace {

constexpr const char* kPromptKinds = "a string, an array of strings, an array of token ids or an array of such arrays";

Prompt text_prompt(const Frontend& front, const std::string& text, bool add_special) {
  return Prompt{.ids = front.text_ids(text, add_special, true), .text = text, .has_text = true};
}

// The first element says what the array is: strings, or arrays of ids, or the ids of one prompt.
Result<std::vector<Prompt>> prompt_list(const Fields& f, const Frontend& front, const Json& list, bool add_special, size_t most) {
  const int64_t last = front.vocab_size() - 1;
  std::vector<Prompt> out;
  if (list.empty()) return bad_field("prompt", "the prompt is empty", "send at least one token");
  if (list[0].is_number()) {
    ISO_TRY(auto ids, f.ids("prompt", 0, last));
    out.push_back({.ids = std::move(ids)});
    return out;
  }
  if (!list[0].is_string() && !list[0].is_array()) return bad_field("prompt[0]", Fields::mismatch(kPromptKinds, list[0]));
  if (list.size() > most) return bad_field("prompt", fmt::format("{} prompts in one request, at most {} are allowed", list.size(), most));
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string at = fmt::format("prompt[{}]", i);
    if (list[i].type() != list[0].type()) {
      return bad_field(at, Fields::mismatch(list[0].is_string() ? "a string" : "an array of token ids", list[i]), "do not mix kinds of prompts");
    }
    if (list[i].is_string()) {
      out.push_back(text_prompt(front, list[i].get_ref<const std::string&>(), add_special));
      continue;
    }
    const Json one = {{at, list[i]}};
    ISO_TRY(auto ids, Fields(one).ids(at, 0, last));
    out.push_back({.ids = std::move(ids)});
  }
  return out;
}

Result<std::vector<Prompt>> parse_prompts(const Fields& f, const Frontend& front, const CallLimits& limits) {
  ISO_TRY(const auto add_special, f.boolean("add_special_tokens"));
  const Json* prompt = f.find("prompt");
  if (prompt == nullptr) return bad_field("prompt", "the request has no prompt", std::string("send ") + kPromptKinds);
  std::vector<Prompt> out;
  if (prompt->is_string()) {
    out.push_back(text_prompt(front, prompt->get_ref<const std::string&>(), add_special.value_or(true)));
  } else if (prompt->is_array()) {
    ISO_TRY(out, prompt_list(f, front, *prompt, add_special.value_or(true), size_t(limits.max_children)));
  } else {
    return bad_field("prompt", Fields::mismatch(kPromptKinds, *prompt));
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i].ids.empty()) continue;
    // An empty text starts where every text starts, if the model has such a token.
    const int32_t bos = front.tokenizer().bos_id();
    if (!out[i].has_text || bos < 0) {
      const std::string at = out.size() == 1 && !prompt->is_array() ? "prompt" : fmt::format("prompt[{}]", i);
      return bad_field(at, "the prompt is empty", "send at least one token");
    }
    out[i].ids = {bos};
  }
  return out;
}

Result<void> check_children(const CallLimits& limits, const Call& call) {
  const int64_t children = int64_t(call.spec.prompts.size()) * call.spec.best_of;
  if (children <= limits.max_children) return {};
  return bad_field(call.spec.best_of > call.spec.n ? "best_of" : "n",
                   fmt::format("{} prompts with {} choices each are {} sequences, at most {} are allowed in one request",
                               call.spec.prompts.size(), call.spec.best_of, children, limits.max_children));
}

void set_logprobs(Call& call) {
  const OutputOptions& out = call.spec.output;
  SamplingParams& p = call.spec.sampling;
  p.logprobs = std::max(out.logprobs, call.spec.best_of > call.spec.n ? 0 : -1);
  p.prompt_logprobs = std::max(out.echo && !call.chat ? out.logprobs : -1, out.prompt_logprobs);
}

Result<Json> optional_array(const Fields& f, const char* name) {
  ISO_TRY(const Json* v, f.array(name));
  return v == nullptr ? Json() : *v;
}

}  // namespace

std::string random_id() {
  thread_local std::mt19937_64 source = [] {
    std::random_device entropy;
    std::seed_seq seed{entropy(), entropy(), entropy(), entropy()};
    return std::mt19937_64(seed);
  }();
  return fmt::format("{:016x}{:016x}", source(), source());
}

Api<Call> parse_completion(const Json& body, Frontend& front, const CallLimits& limits) {
  ISO_TRY(const Fields f, Fields::of(body, {}));
  Call call;
  ISO_CHECK_OK(parse_common(f, front, limits, call));
  if (f.has("thinking_token_budget")) return bad_field("thinking_token_budget", "reasoning is told apart from the answer in chats only", "send the request to /v1/chat/completions");
  OutputOptions& out = call.spec.output;
  ISO_TRY(const auto echo, f.boolean("echo"));
  out.echo = echo.value_or(false);
  ISO_TRY(const auto logprobs, f.integer("logprobs", 0, limits.max_logprobs));
  out.logprobs = int(logprobs.value_or(-1));
  set_logprobs(call);
  ISO_TRY(call.spec.prompts, parse_prompts(f, front, limits));
  ISO_CHECK_OK(check_children(limits, call));
  ISO_TRY(const auto max_tokens, parse_max_tokens(f));
  for (size_t i = 0; i < call.spec.prompts.size(); ++i) {
    const std::string at = call.spec.prompts.size() == 1 ? "prompt" : fmt::format("prompt[{}]", i);
    ISO_CHECK_OK(fit_context(f, front, call, max_tokens, at, call.spec.prompts[i]));
  }
  ISO_CHECK_OK(parse_cache_fields(f, call));
  ISO_CHECK_OK(prepare_form(front, call));
  return call;
}

Result<ChatInput> parse_chat_input(const Json& body, const std::string& messages_field) {
  ISO_TRY(const Fields f, Fields::of(body, {}));
  ChatInput in;
  ISO_TRY(in.tools, parse_tools(f));
  const Json* messages = f.find(messages_field);
  if (messages == nullptr) return bad_field(messages_field, "the request has no messages", "send an array of {\"role\", \"content\"} objects");
  in.messages = *messages;
  ISO_TRY(in.documents, optional_array(f, "documents"));
  ISO_TRY(const Json* kwargs, f.object("chat_template_kwargs"));
  if (kwargs != nullptr) in.kwargs = *kwargs;
  // Templates of gpt-oss, DeepSeek V4, Seed-OSS and others read it; those of models that think or not know enable_thinking.
  ISO_TRY(const auto effort, f.string("reasoning_effort"));
  if (effort && !in.kwargs.contains("reasoning_effort")) in.kwargs["reasoning_effort"] = *effort;
  if (effort == "none" && !in.kwargs.contains("enable_thinking")) in.kwargs["enable_thinking"] = false;
  ISO_TRY(in.chat_template, f.string("chat_template"));
  if (in.chat_template && in.chat_template->empty()) in.chat_template.reset();
  ISO_TRY(const auto continue_final, f.boolean("continue_final_message"));
  in.continue_final_message = continue_final.value_or(false);
  ISO_TRY(const auto generation_prompt, f.boolean("add_generation_prompt"));
  in.add_generation_prompt = generation_prompt.value_or(!in.continue_final_message);
  if (in.add_generation_prompt && in.continue_final_message) {
    return bad_field("continue_final_message", "continue_final_message and add_generation_prompt cannot both be true", "turn one of them off");
  }
  ISO_TRY(const auto add_special, f.boolean("add_special_tokens"));
  in.add_special_tokens = add_special.value_or(false);
  return in;
}

Api<Call> parse_chat(const Json& body, Frontend& front, const CallLimits& limits) {
  ISO_TRY(const Fields f, Fields::of(body, {}));
  Call call{.chat = true};
  ISO_CHECK_OK(parse_common(f, front, limits, call));
  OutputOptions& out = call.spec.output;
  out.chat = true;
  ISO_TRY(const auto logprobs, f.boolean("logprobs"));
  ISO_TRY(const auto top, f.integer("top_logprobs", 0, limits.max_logprobs));
  if (top.value_or(0) > 0 && !logprobs.value_or(false)) {
    return bad_field("top_logprobs", "top_logprobs needs logprobs to be true", "send \"logprobs\": true");
  }
  out.logprobs = logprobs.value_or(false) ? int(top.value_or(0)) : -1;
  set_logprobs(call);

  ISO_TRY(const auto input, parse_chat_input(body, f.has("messages") || !f.has("prompt") ? "messages" : "prompt"));
  ISO_TRY(const auto echo, f.boolean("echo"));
  if (echo.value_or(false) && input.messages.is_array() && !input.messages.empty() && input.messages.back().is_object() &&
      input.messages.back().value("role", Json()) == call.role) {
    out.prefix = content_text(input.messages.back());
  }
  Prompt prompt;
  ISO_TRY(prompt.ids, front.chat_ids(input));
  if (prompt.ids.empty()) return bad_field("messages", "the chat template makes an empty prompt of these messages");
  ISO_TRY(call.reply, parse_reply_plan(f, front, input, prompt.ids));
  ISO_CHECK_OK(add_call_form(f, front, input.tools, call));
  if (call.reply.keep_special()) out.skip_special = false;
  call.spec.prompts.push_back(std::move(prompt));
  ISO_CHECK_OK(check_children(limits, call));
  ISO_TRY(const auto max_tokens, parse_max_tokens(f));
  ISO_CHECK_OK(fit_context(f, front, call, max_tokens, "messages", call.spec.prompts[0]));
  ISO_CHECK_OK(parse_chat_cache_fields(f, front, input, call));
  ISO_CHECK_OK(prepare_form(front, call));
  ISO_CHECK_OK(limit_thinking(f, front, call));
  return call;
}

}  // namespace isotope::serve
