#include "serve/tool_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "serve/tools/markup.h"

namespace isotope::serve {
namespace {

constexpr size_t kMaxTools = 1024, kMaxNameBytes = 128;
constexpr size_t kPromptEnd = 16;   // tokens; a tag and line ends are fewer

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == ':';
}

Result<void> check_tool(const Json& tool, const std::string& at) {
  ISO_TRY(const Fields f, Fields::of(tool, at));
  ISO_TRY(const auto type, f.string("type"));
  if (type && *type != "function") {
    return tl::unexpected(field_error(f.path("type"), "tools of type " + shown(Json(*type)) + " are not supported", "send \"function\"", Code::unsupported));
  }
  ISO_TRY(const Json* function, f.object("function"));
  if (function == nullptr) return bad_field(f.path("function"), "a tool needs a function", "send {\"type\": \"function\", \"function\": {\"name\": …}}");
  const Fields inner(*function, f.path("function"));
  ISO_TRY(const auto name, inner.string("name"));
  if (!name) return bad_field(inner.path("name"), "a function needs a name");
  if (name->empty() || name->size() > kMaxNameBytes || !std::all_of(name->begin(), name->end(), is_name_char)) {
    return bad_field(inner.path("name"), "the name " + shown(Json(*name)) + " cannot be used",
                     fmt::format("use letters, digits, '_', '-', '.' and ':', at most {} of them", kMaxNameBytes));
  }
  ISO_CHECK_OK(inner.string("description"));
  ISO_CHECK_OK(inner.object("parameters"));
  ISO_CHECK_OK(inner.boolean("strict"));
  return {};
}

// The function's name: OpenAI's chat shape nests it, its responses shape does not.
Result<std::string> named_function(const Json& choice, const std::string& at) {
  const Fields f(choice, at);
  ISO_TRY(const Json* nested, f.object("function"));
  const Fields inner = nested != nullptr ? Fields(*nested, f.path("function")) : f;
  ISO_TRY(const auto name, inner.string("name"));
  if (!name) return bad_field(inner.path("name"), "a function needs a name");
  return *name;
}

Result<ToolChoice> object_choice(const Json& object) {
  const Fields f(object, "tool_choice");
  ISO_TRY(const auto type, f.string("type"));
  if (type == "allowed_tools") {
    ISO_TRY(const Json* nested, f.object("allowed_tools"));
    const Fields inner = nested != nullptr ? Fields(*nested, f.path("allowed_tools")) : f;
    ISO_TRY(const auto mode, inner.string("mode"));
    ISO_TRY(const Json* list, inner.array("tools"));
    if (mode && *mode != "auto" && *mode != "required") return bad_field(inner.path("mode"), "there is no mode " + shown(Json(*mode)), "send \"auto\" or \"required\"");
    ToolChoice out{.mode = mode == "required" ? ToolChoice::Mode::required : ToolChoice::Mode::automatic};
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const std::string at = fmt::format("{}[{}]", inner.path("tools"), i);
      ISO_CHECK_OK(Fields::of((*list)[i], at));
      ISO_TRY(std::string name, named_function((*list)[i], at));
      out.only.push_back(std::move(name));
    }
    if (out.only.empty()) return bad_field(inner.path("tools"), "no tool is allowed", "name at least one, or send \"none\"");
    return out;
  }
  if (type && *type != "function") return bad_field(f.path("type"), "tool_choice of type " + shown(Json(*type)) + " is unknown", "send \"function\" or \"allowed_tools\"");
  ISO_TRY(std::string name, named_function(object, "tool_choice"));
  return ToolChoice{.mode = ToolChoice::Mode::required, .only = {std::move(name)}};
}

// The tools that may be called, their schemas checked. A schema that is not strict and cannot be held leaves the arguments any object.
Result<Json> callable(const Json& tools, const ToolChoice& choice, bool strict_only, bool& strict) {
  Json out = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    Json function = tools[i].at("function");
    const std::string name = function.at("name").get<std::string>();
    if (!choice.only.empty() && std::find(choice.only.begin(), choice.only.end(), name) == choice.only.end()) continue;
    const bool held = function.value("strict", Json(false)) == true;
    strict = strict || held;
    if (function.contains("parameters") && function["parameters"].is_object()) {
      auto schema = text::checked_schema(function["parameters"], fmt::format("tools[{}].function.parameters", i));
      if (!schema && held) {
        Error e = std::move(schema).error();
        return tl::unexpected(field_error(e.source, "tool '" + name + "': " + e.what, std::move(e.remedy), e.code));
      }
      const bool whole = schema && (held || !strict_only) && schema->value("type", Json("object")) == "object";
      function["parameters"] = whole ? *std::move(schema) : Json{{"type", "object"}, {"additionalProperties", true}};
    }
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

std::string prompt_end(const Frontend& front, const std::vector<int32_t>& prompt) {
  return front.tokenizer().decode({prompt.end() - ptrdiff_t(std::min(prompt.size(), kPromptEnd)), prompt.end()}, false);
}

}  // namespace

Result<ToolChoice> parse_tool_choice(const Fields& f) {
  const Json* choice = f.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return ToolChoice{};
  if (*choice == "none") return ToolChoice{.mode = ToolChoice::Mode::none};
  if (*choice == "required") return ToolChoice{.mode = ToolChoice::Mode::required};
  if (choice->is_object()) return object_choice(*choice);
  if (!choice->is_string()) return bad_field("tool_choice", Fields::mismatch("a string or an object", *choice));
  return bad_field("tool_choice", "tool_choice " + shown(*choice) + " is unknown", "send \"auto\", \"none\", \"required\" or a function");
}

Result<void> add_call_form(const Fields& f, const Frontend& front, const Json& tools, Call& call) {
  ISO_TRY(const ToolChoice choice, parse_tool_choice(f));
  const bool forced = choice.mode == ToolChoice::Mode::required;
  if (tools.is_null()) {
    return forced ? Result<void>(bad_field("tool_choice", "a tool call is asked for, but the request has no tools", "send tools, or leave tool_choice out")) : Result<void>();
  }
  bool strict = false;
  ISO_TRY(Json chosen, callable(tools, choice, !forced, strict));
  if (chosen.size() < std::max<size_t>(choice.only.size(), 1)) return bad_field("tool_choice", "tool_choice names a tool that the request does not have", "name one of its tools");
  if (!forced && !strict && !call.form && choice.only.empty()) return {};
  if (forced && call.form) return bad_field("tool_choice", "the answer cannot be a tool call and have the form of " + call.form->at, "keep one of them");
  const ToolRow& row = *front.tool_parser();
  Json format = call_format(row, {.tools = std::move(chosen), .parallel = call.reply.parallel, .optional = !forced && !call.form});
  if (format.is_null()) {
    if (!forced && !strict) return {};
    return tl::unexpected(field_error(forced ? "tool_choice" : "tools", std::string("calls cannot be forced, nor strict, with the tool parser '") + row.name + "'",
                                      "send \"auto\", and leave strict out", Code::unsupported));
  }
  if (call.form) {
    call.form->alternative = std::move(format);
  } else {
    call.form = text::GrammarSpec{.kind = text::GrammarSpec::Kind::structural_tag, .value = {{"type", "structural_tag"}, {"format", std::move(format)}}, .at = "tools"};
  }
  return {};
}

Result<Json> parse_tools(const Fields& f) {
  ISO_TRY(const Json* tools, f.array("tools"));
  ISO_TRY(const ToolChoice choice, parse_tool_choice(f));
  const bool allowed = choice.mode != ToolChoice::Mode::none;
  if (tools == nullptr || tools->empty()) return Json();
  if (tools->size() > kMaxTools) return bad_field("tools", fmt::format("{} tools in one request, at most {} are allowed", tools->size(), kMaxTools));
  for (size_t i = 0; i < tools->size(); ++i) ISO_CHECK_OK(check_tool((*tools)[i], fmt::format("tools[{}]", i)));
  return allowed ? *tools : Json();
}

Result<ReplyPlan> parse_reply_plan(const Fields& f, const Frontend& front, const ChatInput& input, const std::vector<int32_t>& prompt) {
  ReplyPlan plan{.reasoning = front.reasoning_parser()};
  ISO_TRY(const auto parallel, f.boolean("parallel_tool_calls"));
  plan.parallel = parallel.value_or(true);
  ISO_TRY(const auto show, f.boolean("include_reasoning"));
  plan.show_reasoning = show.value_or(true);
  if (!input.tools.is_null()) {
    plan.tools = front.tool_parser();
    if (plan.tools == nullptr) {
      return tl::unexpected(field_error("tools", "it is not known how this model writes tool calls: its chat template shows none",
                                        "start the server with --tool-call-parser, leave tools out, or send \"tool_choice\": \"none\"", Code::unsupported));
    }
    plan.toolbox = std::make_shared<const Toolbox>(input.tools);
  }
  if (plan.reasoning == nullptr || plan.reasoning->whole != nullptr) return plan;
  const std::string end = prompt_end(front, prompt);
  plan.start = reply_start(*plan.reasoning, end);
  // The model goes on with an answer, not with its thoughts.
  if (input.continue_final_message && !end.ends_with(plan.reasoning->open)) plan.start = ReplyPlan::Start::outside;
  return plan;
}

}  // namespace isotope::serve
