#include <fmt/format.h>

#include <utility>

#include "serve/fields.h"
#include "serve/responses.h"

namespace isotope::serve {
namespace {

constexpr const char* kPassed[] = {"model", "stream", "temperature", "top_p", "parallel_tool_calls", "user", "metadata", "safety_identifier", "prompt_cache_key", "service_tier", "top_k", "min_p",
                                   "seed", "repetition_penalty", "presence_penalty", "frequency_penalty", "min_tokens", "stop", "ignore_eos", "skip_special_tokens", "logit_bias", "priority",
                                   "cache_salt", "request_id", "chat_template_kwargs", "structured_outputs", "kv_transfer_params", "data_parallel_rank", "include_reasoning", "tool_choice"};

/// Items of the input become messages: calls join the assistant's message before them, outputs become messages of tools.
class Messages {
 public:
  /// `before`: messages that the request puts in front of these.
  Messages(Json earlier, size_t before, FieldNames& names) : list_(std::move(earlier)), before_(before), names_(names) {
    for (size_t i = 0; i < list_.size(); ++i) names_.add(fmt::format("messages[{}]", before_ + i), "previous_response_id");
  }
  Result<void> add(const Json& item, const std::string& at);
  size_t size() const { return list_.size(); }
  Json take() {
    flush();
    return std::move(list_);
  }

 private:
  Json& assistant() {
    if (open_.is_null()) {
      open_ = {{"role", "assistant"}, {"content", ""}};
      names_.add(next(), at_);
    }
    return open_;
  }
  std::string next() const { return fmt::format("messages[{}]", before_ + list_.size()); }
  void put(Json message) {
    flush();
    names_.add(next(), at_);
    list_.push_back(std::move(message));
  }
  void flush() {
    if (!open_.is_null()) list_.push_back(std::exchange(open_, nullptr));
  }
  Result<void> message(const Fields&);
  Result<void> call(const Fields&);
  Result<void> output(const Fields&);
  Result<void> reasoning(const Fields&);

  Json list_, open_;
  std::string at_;   ///< of the item that is being added
  size_t before_;
  FieldNames& names_;
};

Result<void> Messages::message(const Fields& f) {
  ISO_TRY(const auto role, f.string("role"));
  if (!role) return bad_field(f.path("role"), "a message needs a role");
  const Json* content = f.find("content");
  if (content == nullptr) return bad_field(f.path("content"), "a message needs a content");
  if (*role != "assistant") {
    put({{"role", *role}, {"content", *content}});
    return {};
  }
  if (!open_.is_null() && open_["content"] != "") flush();
  assistant()["content"] = *content;
  names_.add(next() + ".content", f.path("content"));
  return {};
}

Result<void> Messages::call(const Fields& f) {
  ISO_TRY(const auto id, f.string("call_id"));
  ISO_TRY(const auto name, f.string("name"));
  ISO_TRY(const auto arguments, f.string("arguments"));
  if (!name) return bad_field(f.path("name"), "a function call needs a name");
  Json& calls = assistant()["tool_calls"];
  names_.add(fmt::format("{}.tool_calls[{}].function", next(), calls.size()), at_);
  calls.push_back({{"id", id.value_or("")}, {"type", "function"}, {"function", {{"name", *name}, {"arguments", arguments.value_or("{}")}}}});
  return {};
}

Result<void> Messages::output(const Fields& f) {
  ISO_TRY(const auto id, f.string("call_id"));
  if (!id) return bad_field(f.path("call_id"), "an output needs the call_id of its call");
  const Json* output = f.find("output");
  if (output == nullptr || (!output->is_string() && !output->is_array())) return bad_field(f.path("output"), "an output is a string or an array of parts");
  put({{"role", "tool"}, {"tool_call_id", *id}, {"content", *output}});
  names_.add(fmt::format("messages[{}].content", before_ + list_.size() - 1), f.path("output"));
  return {};
}

Result<void> Messages::reasoning(const Fields& f) {
  flush();
  std::string text;
  for (const char* name : {"content", "summary"}) {
    ISO_TRY(const Json* parts, f.array(name));
    if (!text.empty()) break;   // the summary stands in for a content that is not there
    for (size_t i = 0; parts != nullptr && i < parts->size(); ++i) {
      ISO_TRY(const Fields part, Fields::of((*parts)[i], fmt::format("{}[{}]", f.path(name), i)));
      ISO_TRY(const auto piece, part.string("text"));
      text += piece.value_or("");
    }
  }
  if (!text.empty()) assistant()["reasoning_content"] = text;
  return {};
}

Result<void> Messages::add(const Json& item, const std::string& at) {
  at_ = at;
  ISO_TRY(const Fields f, Fields::of(item, at));
  ISO_TRY(const auto type, f.string("type"));
  const std::string kind = type.value_or("message");
  if (kind == "message") return message(f);
  if (kind == "function_call") return call(f);
  if (kind == "function_call_output") return output(f);
  if (kind == "reasoning") return reasoning(f);
  return tl::unexpected(field_error(f.path("type"), "items of type " + shown(Json(kind)) + " are not supported", "send messages, function calls, their outputs and reasoning", Code::unsupported));
}

Result<Json> tools_of(const Json& tools) {
  Json out = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    ISO_TRY(const Fields f, Fields::of(tools[i], fmt::format("tools[{}]", i)));
    ISO_TRY(const auto type, f.string("type"));
    if (type && *type != "function") {
      return tl::unexpected(field_error(f.path("type"), "tools of type " + shown(Json(*type)) + " are not supported", "send \"function\"", Code::unsupported));
    }
    ISO_TRY(const Json* nested, f.object("function"));   // the chat shape, too
    Json function = nested != nullptr ? *nested : tools[i];
    if (nested == nullptr) function.erase("type");
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

Result<void> add_text(const Fields& f, Json& chat) {
  ISO_TRY(const Json* text, f.object("text"));
  if (text == nullptr) return {};
  const Fields t(*text, "text");
  ISO_CHECK_OK(t.string("verbosity"));
  ISO_TRY(const Json* format, t.object("format"));
  if (format == nullptr) return {};
  const Fields g(*format, "text.format");
  ISO_TRY(const auto type, g.string("type"));
  if (type != "json_schema") {
    chat["response_format"] = *format;
    return {};
  }
  ISO_TRY(const Json* schema, g.object("schema"));
  if (schema == nullptr) return bad_field(g.path("schema"), "the format needs a schema");
  ISO_CHECK_OK(g.string("name"));
  ISO_CHECK_OK(g.boolean("strict"));
  chat["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "answer"}, {"schema", *schema}}}};
  return {};
}

Result<void> add_limits(const Fields& f, Json& chat) {
  ISO_TRY(const auto most, f.integer("max_output_tokens", 1, INT64_MAX));
  if (most) chat["max_completion_tokens"] = *most;
  ISO_TRY(const auto background, f.boolean("background"));
  if (background.value_or(false)) return tl::unexpected(field_error("background", "responses in the background are not supported", "leave it out", Code::unsupported));
  ISO_TRY(const auto truncation, f.string("truncation"));
  if (truncation == "auto") chat["truncate_prompt_tokens"] = -1;
  if (truncation && *truncation != "auto" && *truncation != "disabled") return bad_field("truncation", "truncation is \"auto\" or \"disabled\"");
  ISO_TRY(const Json* reasoning, f.object("reasoning"));
  if (reasoning != nullptr) {
    ISO_TRY(const auto effort, Fields(*reasoning, "reasoning").string("effort"));
    if (effort) chat["reasoning_effort"] = *effort;
  }
  ISO_TRY(const auto include, f.strings("include", 16, false));
  ISO_TRY(const auto top, f.integer("top_logprobs", 0, 1000));
  for (const std::string& what : include) {
    if (what == "message.output_text.logprobs") chat["logprobs"] = true;
  }
  if (top.value_or(0) > 0) chat["logprobs"] = true, chat["top_logprobs"] = *top;
  return {};
}

// What these ask for would be missing from the answer without a word.
constexpr const char* kElsewhere[] = {"prompt", "conversation"};

// Fields whose names differ; messages are named as they are made.
constexpr std::pair<const char*, const char*> kNames[] = {
    {"messages", "input"},
    {"response_format", "text.format"},
    {"response_format.json_schema", "text.format"},
    {"max_tokens", "max_output_tokens"},
    {"max_completion_tokens", "max_output_tokens"},
    {"truncate_prompt_tokens", "truncation"},
    {"reasoning_effort", "reasoning.effort"},
};

Json echoed_of(const Json& body) {
  const auto value = [&](const char* name, Json otherwise) { return body.contains(name) && !body[name].is_null() ? body[name] : std::move(otherwise); };
  Json text = value("text", Json::object());
  if (!text.is_object()) text = Json::object();
  if (!text.contains("format")) text["format"] = {{"type", "text"}};
  return {{"background", false},
          {"instructions", value("instructions", nullptr)},
          {"max_output_tokens", value("max_output_tokens", nullptr)},
          {"metadata", value("metadata", Json::object())},
          {"parallel_tool_calls", value("parallel_tool_calls", true)},
          {"previous_response_id", value("previous_response_id", nullptr)},
          {"reasoning", value("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
          {"service_tier", value("service_tier", "auto")},
          {"store", value("store", true)},
          {"temperature", value("temperature", nullptr)},
          {"text", std::move(text)},
          {"tool_choice", value("tool_choice", "auto")},
          {"tools", value("tools", Json::array())},
          {"top_logprobs", value("top_logprobs", 0)},
          {"top_p", value("top_p", nullptr)},
          {"truncation", value("truncation", "disabled")},
          {"user", value("user", nullptr)}};
}

}  // namespace

Result<ResponsesRequest> chat_of_responses(const Json& body, const ResponseStore& store) {
  const Fields f(body);
  ResponsesRequest out{.chat = Json::object(), .echoed = Json::object(), .names = {}};
  for (const auto& [chat, own] : kNames) out.names.add(chat, own);
  for (const char* name : kElsewhere) {
    if (f.find(name) == nullptr) continue;
    return tl::unexpected(field_error(name, fmt::format("a {} kept by the server is not supported", name), "send it as input", Code::unsupported));
  }
  for (const char* name : kPassed) {
    if (const Json* v = f.find(name); v != nullptr) out.chat[name] = *v;
  }
  Json earlier = Json::array();
  ISO_TRY(const auto previous, f.string("previous_response_id"));
  if (previous) {
    const auto entry = store.find(*previous);
    if (!entry) {
      return tl::unexpected(field_error("previous_response_id", "the response " + shown(Json(*previous)) + " is not kept here", "send the whole conversation as input", Code::not_found));
    }
    earlier = entry->messages;
  }
  ISO_TRY(const auto instructions, f.string("instructions"));
  // Instructions hold for one response: those of the previous one are not among what was kept.
  Json head = Json::array();
  if (instructions) {
    head.push_back({{"role", "system"}, {"content", *instructions}});
    out.names.add("messages[0].content", "instructions");
  }
  Messages messages(std::move(earlier), head.size(), out.names);
  const Json* input = f.find("input");
  if (input == nullptr) return bad_field("input", "the request has no input", "send a text or an array of items");
  if (input->is_string()) {
    ISO_CHECK_OK(messages.add({{"role", "user"}, {"content", *input}}, "input"));
    out.names.add(fmt::format("messages[{}].content", head.size() + messages.size() - 1), "input");
  } else if (input->is_array()) {
    for (size_t i = 0; i < input->size(); ++i) ISO_CHECK_OK(messages.add((*input)[i], fmt::format("input[{}]", i)));
  } else {
    return bad_field("input", Fields::mismatch("a string or an array of items", *input));
  }
  for (Json& m : messages.take()) head.push_back(std::move(m));
  if (head.empty()) return bad_field("input", "the input is empty", "send at least one item");
  out.chat["messages"] = std::move(head);
  ISO_TRY(const Json* tools, f.array("tools"));
  if (tools != nullptr && !tools->empty()) {
    ISO_TRY(out.chat["tools"], tools_of(*tools));
    for (size_t i = 0; i < tools->size(); ++i) {
      if (!(*tools)[i].contains("function")) out.names.add(fmt::format("tools[{}].function", i), fmt::format("tools[{}]", i));
    }
  }
  ISO_CHECK_OK(add_text(f, out.chat));
  ISO_CHECK_OK(add_limits(f, out.chat));
  ISO_TRY(const auto keep, f.boolean("store"));
  out.store = keep.value_or(true);
  out.echoed = echoed_of(body);
  return out;
}

}  // namespace isotope::serve
