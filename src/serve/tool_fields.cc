#include "serve/tool_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
  return {};
}

// "auto" and "none" need nothing; the others must keep the model to a call, which takes structured output.
Result<bool> tools_allowed(const Fields& f) {
  const Json* choice = f.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return true;
  if (*choice == "none") return false;
  if (!choice->is_string() && !choice->is_object()) return bad_field("tool_choice", Fields::mismatch("a string or an object", *choice));
  if (choice->is_string() && *choice != "required") {
    return bad_field("tool_choice", "tool_choice " + shown(*choice) + " is unknown", "send \"auto\" or \"none\"");
  }
  return tl::unexpected(field_error("tool_choice", "a forced tool call needs structured output, which is not supported yet", "send \"auto\" or \"none\"", Code::unsupported));
}

std::string prompt_end(const Frontend& front, const std::vector<int32_t>& prompt) {
  return front.tokenizer().decode({prompt.end() - ptrdiff_t(std::min(prompt.size(), kPromptEnd)), prompt.end()}, false);
}

}  // namespace

Result<Json> parse_tools(const Fields& f) {
  ISO_TRY(const Json* tools, f.array("tools"));
  ISO_TRY(const bool allowed, tools_allowed(f));
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
