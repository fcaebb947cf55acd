#include "serve/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "serve/embedded_json.h"
#include "serve/fields.h"

namespace isotope::serve {
namespace {

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool", "function"};

constexpr const char* kSpace = " \t\n\r\f\v";

std::string_view strip_left(std::string_view s) {
  const size_t at = s.find_first_not_of(kSpace);
  return at == std::string_view::npos ? std::string_view{} : s.substr(at);
}
std::string_view strip(std::string_view s) {
  s = strip_left(s);
  return s.substr(0, s.find_last_not_of(kSpace) + 1);
}

Result<Json> content_parts(const Json& parts, const std::string& path, bool keep_parts) {
  std::string joined;
  Json kept = Json::array();
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", path, i);
    const Json& part = parts[i];
    std::string text;
    if (part.is_string()) {
      text = part.get<std::string>();
    } else {
      ISO_TRY(const Fields f, Fields::of(part, at));
      ISO_TRY(const auto type, f.string("type"));
      if (!type) return bad_field(f.path("type"), "a content part needs a type", "send {\"type\": \"text\", \"text\": …}");
      if (*type != "text" && *type != "input_text" && *type != "output_text" && *type != "refusal") {
        return bad_field(f.path("type"), "content part type " + shown(Json(*type)) + " is not supported: this model reads text only",
                         "send parts of type text");
      }
      ISO_TRY(const auto value, f.string(*type == "refusal" ? "refusal" : "text"));
      if (!value) return bad_field(f.path("text"), "a text part needs its text");
      text = *value;
    }
    if (i > 0) joined += '\n';
    joined += text;
    kept.push_back({{"type", "text"}, {"text", std::move(text)}});
  }
  return keep_parts ? std::move(kept) : Json(std::move(joined));
}

// Published templates walk over arguments as an object; clients send JSON text.
Result<void> parse_tool_calls(Json& message, const std::string& path) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return {};
  if (calls->is_null()) {
    message.erase("tool_calls");
    return {};
  }
  if (!calls->is_array()) return bad_field(path + ".tool_calls", Fields::mismatch("an array", *calls));
  for (size_t i = 0; i < calls->size(); ++i) {
    const std::string at = fmt::format("{}.tool_calls[{}]", path, i);
    ISO_CHECK_OK(Fields::of((*calls)[i], at));
    const auto function = (*calls)[i].find("function");
    if (function == (*calls)[i].end()) continue;
    ISO_CHECK_OK(Fields::of(*function, at + ".function"));
    const auto arguments = function->find("arguments");
    if (arguments == function->end() || !arguments->is_string()) continue;
    const std::string text = arguments->get<std::string>();
    auto parsed = strip(text).empty() ? Result<Json>(Json::object()) : embedded_json(text, "the arguments are", 64);
    if (!parsed) return bad_field(at + ".function.arguments", parsed.error().what);
    *arguments = *std::move(parsed);
  }
  return {};
}

// vLLM's name for an assistant's reasoning and the one that templates read; a client may send back either.
void name_reasoning_twice(Json& message) {
  for (const auto& [has, lacks] : {std::pair("reasoning", "reasoning_content"), std::pair("reasoning_content", "reasoning")}) {
    const auto it = message.find(has);
    if (it == message.end() || !it->is_string() || message.contains(lacks)) continue;
    std::string text = it->get<std::string>();
    message[lacks] = std::move(text);
  }
}

Result<Json> one_message(const Json& in, const std::string& path, bool keep_parts) {
  ISO_TRY(const Fields f, Fields::of(in, path));
  ISO_TRY(const auto role, f.string("role"));
  if (!role) return bad_field(f.path("role"), "a message needs a role", "send \"role\": \"user\", \"system\" or \"assistant\"");
  Json out = in;
  const auto content = out.find("content");
  if (content == out.end()) {
    if (!f.has("tool_calls")) return bad_field(f.path("content"), "a message needs a content");
    out["content"] = "";
  } else if (content->is_array()) {
    ISO_TRY(*content, content_parts(*content, f.path("content"), keep_parts));
  } else if (content->is_null()) {
    if (*role != "assistant") return bad_field(f.path("content"), Fields::mismatch("a string or an array of parts", *content));
    *content = "";
  } else if (!content->is_string()) {
    return bad_field(f.path("content"), Fields::mismatch("a string or an array of parts", *content));
  }
  ISO_CHECK_OK(parse_tool_calls(out, path));
  if (*role == "assistant") name_reasoning_twice(out);
  return out;
}

}  // namespace

Result<Json> template_messages(const Json& messages, bool keep_parts) {
  if (!messages.is_array()) return bad_field("messages", Fields::mismatch("an array of messages", messages));
  if (messages.empty()) return bad_field("messages", "messages is empty", "send at least one message");
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    ISO_TRY(auto message, one_message(messages[i], fmt::format("messages[{}]", i), keep_parts));
    out.push_back(std::move(message));
  }
  return out;
}

Result<void> check_roles(const Json& messages, std::string_view template_source) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string role = messages[i].value("role", "");
    const bool known = std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
    const auto named = [&](char quote) { return template_source.find(quote + role + quote) != std::string_view::npos; };
    if (known || (!role.empty() && (named('\'') || named('"')))) continue;
    return bad_field(fmt::format("messages[{}].role", i), "there is no role " + shown(Json(role)),
                     "send \"system\", \"developer\", \"user\", \"assistant\", \"tool\", or a role that the chat template names");
  }
  return {};
}

std::string content_text(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  if (!content->is_array()) return text;
  for (const Json& part : *content) {
    if (part.is_object() && part.contains("text") && part["text"].is_string()) text += part["text"].get<std::string>();
  }
  return text;
}

// transformers, apply_chat_template: the last place where the final message stands, keeping its own trailing space if the template kept it.
Result<void> cut_after_final_message(std::vector<text::Tokenizer::Piece>& pieces, const Json& messages) {
  const Json& last = messages.back();
  std::string final_text = content_text(last);
  if (last["content"].is_array() && !last["content"].empty()) final_text = last["content"].back()["text"].get<std::string>();
  std::string whole;
  for (const auto& p : pieces) whole += p.text;
  const std::string_view wanted = strip(final_text), tail = strip_left(final_text);
  const size_t at = whole.rfind(wanted);
  if (at == std::string::npos) {
    return bad_field("continue_final_message", "the chat template does not show the last message's text unchanged",
                     "turn continue_final_message off");
  }
  size_t keep = at + (std::string_view(whole).substr(at, tail.size()) == final_text ? tail.size() : wanted.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (keep >= pieces[i].text.size()) {
      keep -= pieces[i].text.size();
      continue;
    }
    pieces[i].text.resize(keep);
    pieces.resize(i + 1);
    break;
  }
  return {};
}

}  // namespace isotope::serve
