#include <fmt/format.h>

#include <utility>

#include "serve/anthropic.h"
#include "serve/fields.h"

namespace isotope::serve {
namespace {

constexpr const char* kPassed[] = {"model", "stream", "temperature", "top_p", "top_k", "kv_transfer_params", "chat_template_kwargs", "chat_template", "seed", "min_p", "repetition_penalty",
                                   "cache_salt", "priority", "request_id", "structured_outputs", "data_parallel_rank"};

// What these ask for would be missing from the answer without a word.
struct Elsewhere {
  const char *name, *what, *remedy;
};
constexpr Elsewhere kElsewhere[] = {
    {"mcp_servers", "the server calls no tools of other servers", "give their tools as tools, and call them where the request is made"},
    {"container", "the server runs no code and no skills", "leave it out"},
};

// A text block keeps its cache_control; it marks what to keep in the prefix cache.
Result<Json> text_block(const Json& block, const std::string& at) {
  ISO_TRY(const Fields f, Fields::of(block, at));
  ISO_TRY(const auto type, f.string("type"));
  if (type.value_or("text") != "text") {
    return tl::unexpected(field_error(f.path("type"), "content of type " + shown(Json(*type)) + " is not supported here: this model reads text only", "send text", Code::unsupported));
  }
  ISO_TRY(const auto text, f.string("text"));
  if (!text) return bad_field(f.path("text"), "a text block needs its text");
  Json out = {{"type", "text"}, {"text", *text}};
  if (f.has("cache_control")) out["cache_control"] = *f.find("cache_control");
  return out;
}

Result<Json> text_blocks(const Json& v, const std::string& at) {
  if (v.is_string()) return v;
  if (!v.is_array()) return bad_field(at, Fields::mismatch("a string or an array of blocks", v));
  Json out = Json::array();
  for (size_t i = 0; i < v.size(); ++i) {
    ISO_TRY(Json block, text_block(v[i], fmt::format("{}[{}]", at, i)));
    out.push_back(std::move(block));
  }
  return out;
}

Result<Json> tool_result(const Fields& f) {
  ISO_TRY(const auto id, f.string("tool_use_id"));
  if (!id) return bad_field(f.path("tool_use_id"), "a tool result needs the tool_use_id of its call");
  ISO_CHECK_OK(f.boolean("is_error"));
  Json content = "";
  if (const Json* given = f.find("content"); given != nullptr) {
    ISO_TRY(content, text_blocks(*given, f.path("content")));
  }
  return Json{{"role", "tool"}, {"tool_call_id", *id}, {"content", std::move(content)}};
}

Result<Json> tool_use(const Fields& f) {
  ISO_TRY(const auto id, f.string("id"));
  ISO_TRY(const auto name, f.string("name"));
  if (!name) return bad_field(f.path("name"), "a tool use needs a name");
  ISO_TRY(const Json* input, f.object("input"));
  return Json{{"id", id.value_or("")}, {"type", "function"}, {"function", {{"name", *name}, {"arguments", dump(input != nullptr ? *input : Json::object())}}}};
}

/// One message's blocks, sorted: results of tools become messages of their own before the rest.
struct Blocks {
  Json results = Json::array(), parts = Json::array(), calls = Json::array();
  std::vector<std::string> result_at, part_at;   // where each came from
  std::string reasoning;
};

Result<void> add_block(const Json& block, const std::string& at, bool assistant, Blocks& into) {
  ISO_TRY(const Fields f, Fields::of(block, at));
  ISO_TRY(const auto type, f.string("type"));
  if (!type) return bad_field(f.path("type"), "a content block needs a type", "send {\"type\": \"text\", \"text\": …}");
  if (*type == "tool_result" && !assistant) {
    ISO_TRY(Json result, tool_result(f));
    into.results.push_back(std::move(result));
    into.result_at.push_back(at);
  } else if (*type == "tool_use" && assistant) {
    ISO_TRY(Json call, tool_use(f));
    into.calls.push_back(std::move(call));
  } else if (*type == "thinking" && assistant) {
    ISO_TRY(const auto thinking, f.string("thinking"));
    into.reasoning += thinking.value_or("");
  } else if (*type == "redacted_thinking" && assistant) {
    // says nothing that could be read
  } else {
    ISO_TRY(Json part, text_block(block, at));
    into.parts.push_back(std::move(part));
    into.part_at.push_back(at);
  }
  return {};
}

Result<void> add_message(const Json& message, const std::string& at, Json& out, FieldNames& names) {
  const auto next = [&] { return fmt::format("messages[{}]", out.size()); };
  ISO_TRY(const Fields f, Fields::of(message, at));
  ISO_TRY(const auto role, f.string("role"));
  if (!role || (*role != "user" && *role != "assistant" && *role != "system")) {
    return bad_field(f.path("role"), role ? "there is no role " + shown(Json(*role)) : "a message needs a role", "send \"user\" or \"assistant\"");
  }
  const Json* content = f.find("content");
  if (content == nullptr) return bad_field(f.path("content"), "a message needs a content");
  if (content->is_string()) {
    names.add(next(), at);
    out.push_back({{"role", *role}, {"content", *content}});
    return {};
  }
  if (!content->is_array()) return bad_field(f.path("content"), Fields::mismatch("a string or an array of blocks", *content));
  Blocks blocks;
  for (size_t i = 0; i < content->size(); ++i) ISO_CHECK_OK(add_block((*content)[i], fmt::format("{}[{}]", f.path("content"), i), *role == "assistant", blocks));
  for (size_t i = 0; i < blocks.results.size(); ++i) {
    names.add(next(), blocks.result_at[i]);
    out.push_back(std::move(blocks.results[i]));
  }
  if (blocks.parts.empty() && blocks.calls.empty() && blocks.reasoning.empty() && !content->empty()) return {};
  Json rest = {{"role", *role}, {"content", blocks.parts.empty() ? Json("") : std::move(blocks.parts)}};
  if (!blocks.calls.empty()) rest["tool_calls"] = std::move(blocks.calls);
  if (!blocks.reasoning.empty()) rest["reasoning_content"] = std::move(blocks.reasoning);
  names.add(next(), at);
  for (size_t i = 0; i < blocks.part_at.size(); ++i) names.add(fmt::format("{}.content[{}]", next(), i), blocks.part_at[i]);
  out.push_back(std::move(rest));
  return {};
}

Result<Json> tools_of(const Json& tools) {
  Json out = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    ISO_TRY(const Fields f, Fields::of(tools[i], fmt::format("tools[{}]", i)));
    ISO_TRY(const auto type, f.string("type"));
    if (type && *type != "custom") {
      return tl::unexpected(field_error(f.path("type"), "tools of type " + shown(Json(*type)) + " are not supported", "define the tool with name and input_schema", Code::unsupported));
    }
    ISO_TRY(const auto name, f.string("name"));
    if (!name) return bad_field(f.path("name"), "a tool needs a name");
    ISO_TRY(const auto description, f.string("description"));
    ISO_TRY(const auto strict, f.boolean("strict"));
    ISO_TRY(const Json* schema, f.object("input_schema"));
    if (schema == nullptr) return bad_field(f.path("input_schema"), "a tool needs an input_schema", "send a JSON schema");
    Json function = {{"name", *name}};
    if (description) function["description"] = *description;
    function["parameters"] = *schema;
    if (strict) function["strict"] = *strict;
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

Result<void> add_tool_choice(const Json& choice, Json& chat) {
  const Fields f(choice, "tool_choice");
  ISO_TRY(const auto type, f.string("type"));
  ISO_TRY(const auto alone, f.boolean("disable_parallel_tool_use"));
  if (alone) chat["parallel_tool_calls"] = !*alone;
  if (type == "auto" || type == "none") {
    chat["tool_choice"] = *type;
  } else if (type == "any") {
    chat["tool_choice"] = "required";
  } else if (type == "tool") {
    ISO_TRY(const auto name, f.string("name"));
    if (!name) return bad_field(f.path("name"), "the tool needs a name");
    chat["tool_choice"] = {{"type", "function"}, {"function", {{"name", *name}}}};
  } else {
    return bad_field(f.path("type"), type ? "there is no tool_choice " + shown(Json(*type)) : "tool_choice needs a type", "send auto, any, tool or none");
  }
  return {};
}

// The model's template decides how it thinks.
Result<void> add_thinking(const Json& thinking, Json& chat) {
  const Fields f(thinking, "thinking");
  ISO_TRY(const auto type, f.string("type"));
  if (type != "enabled" && type != "disabled" && type != "adaptive") return bad_field(f.path("type"), "thinking is enabled, disabled or adaptive");
  ISO_TRY(const auto budget, f.integer("budget_tokens", 0, INT64_MAX));
  if (budget && type == "enabled") chat["thinking_token_budget"] = *budget;
  Json& kwargs = chat["chat_template_kwargs"];
  if (!kwargs.is_object()) kwargs = Json::object();
  if (type != "adaptive" && !kwargs.contains("enable_thinking")) kwargs["enable_thinking"] = type == "enabled";
  return {};
}

Result<void> add_format(const Fields& f, ChatOfMessages& out) {
  ISO_TRY(const Json* config, f.object("output_config"));
  ISO_TRY(const Json* format, f.object("output_format"));
  std::string at = "output_format";
  if (config != nullptr) {
    ISO_TRY(const Json* inner, Fields(*config, "output_config").object("format"));
    if (inner != nullptr) format = inner, at = "output_config.format";
  }
  if (format == nullptr) return {};
  const Fields g(*format, at);
  ISO_TRY(const auto type, g.string("type"));
  if (type != "json_schema") return bad_field(g.path("type"), "there is only the format \"json_schema\"");
  ISO_TRY(const Json* schema, g.object("schema"));
  if (schema == nullptr) return bad_field(g.path("schema"), "the format needs a schema");
  out.chat["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "answer"}, {"schema", *schema}}}};
  out.names.add("response_format.json_schema", at);
  return {};
}

// Fields whose names differ; messages are named as they are made.
constexpr std::pair<const char*, const char*> kNames[] = {
    {"stop", "stop_sequences"}, {"user", "metadata.user_id"}, {"chat_template_kwargs.enable_thinking", "thinking.type"},
    {"thinking_token_budget", "thinking.budget_tokens"}, {"reasoning_effort", "output_config.effort"}};

}  // namespace

Result<ChatOfMessages> chat_of_messages(const Json& body, bool counting) {
  const Fields f(body);
  ChatOfMessages out{.chat = Json::object(), .names = {}};
  Json& chat = out.chat;
  for (const auto& [name, own] : kNames) out.names.add(name, own);
  for (const Elsewhere& e : kElsewhere) {
    const Json* v = f.find(e.name);
    if (v != nullptr && !(v->is_structured() && v->empty())) return tl::unexpected(field_error(e.name, e.what, e.remedy, Code::unsupported));
  }
  for (const char* name : kPassed) {
    if (const Json* v = f.find(name); v != nullptr) chat[name] = *v;
  }
  Json messages = Json::array();
  if (const Json* system = f.find("system"); system != nullptr) {
    ISO_TRY(Json content, text_blocks(*system, "system"));
    messages.push_back({{"role", "system"}, {"content", std::move(content)}});
    out.names.add("messages[0].content", "system");
  }
  ISO_TRY(const Json* given, f.array("messages"));
  if (given == nullptr || given->empty()) return bad_field("messages", "the request has no messages", "send an array of {\"role\", \"content\"} objects");
  for (size_t i = 0; i < given->size(); ++i) ISO_CHECK_OK(add_message((*given)[i], fmt::format("messages[{}]", i), messages, out.names));
  // A last message of the assistant's is the beginning of the answer.
  if (messages.size() > 1 && messages.back()["role"] == "assistant" && !messages.back().contains("tool_calls")) chat["continue_final_message"] = true;
  chat["messages"] = std::move(messages);
  ISO_TRY(const Json* tools, f.array("tools"));
  if (tools != nullptr && !tools->empty()) {
    ISO_TRY(chat["tools"], tools_of(*tools));
    for (size_t i = 0; i < tools->size(); ++i) {
      out.names.add(fmt::format("tools[{}].function", i), fmt::format("tools[{}]", i));
      out.names.add(fmt::format("tools[{}].function.parameters", i), fmt::format("tools[{}].input_schema", i));
    }
  }
  ISO_TRY(const Json* choice, f.object("tool_choice"));
  if (choice != nullptr) ISO_CHECK_OK(add_tool_choice(*choice, chat));
  ISO_TRY(const Json* thinking, f.object("thinking"));
  if (thinking != nullptr) ISO_CHECK_OK(add_thinking(*thinking, chat));
  ISO_TRY(const Json* config, f.object("output_config"));
  if (config != nullptr) {
    ISO_TRY(const auto effort, Fields(*config, "output_config").string("effort"));
    if (effort) chat["reasoning_effort"] = *effort;
  }
  if (counting) return out;
  ISO_CHECK_OK(add_format(f, out));
  ISO_TRY(const auto max_tokens, f.integer("max_tokens", 1, INT64_MAX));
  if (!max_tokens) return bad_field("max_tokens", "the request has no max_tokens", "send how many tokens the answer may have");
  chat["max_tokens"] = *max_tokens;
  ISO_TRY(const auto stops, f.strings("stop_sequences", 64, false));
  if (!stops.empty()) chat["stop"] = stops;
  ISO_TRY(const Json* metadata, f.object("metadata"));
  if (metadata != nullptr) {
    ISO_TRY(const auto user, Fields(*metadata, "metadata").string("user_id"));
    if (user) chat["user"] = *user;
  }
  return out;
}

}  // namespace isotope::serve
