// Responses and messages: other words for a chat.
#include <memory>
#include <utility>

#include "serve/anthropic.h"
#include "serve/api.h"

namespace isotope::serve {
namespace {

// Errors of the chat request in the words of the one that it was made of.
template <class T>
Api<T> named(Api<T> result, const FieldNames& names) {
  if (!result) return tl::unexpected(names.own(std::move(result).error()));
  return result;
}
/// By hand: tl::expected of another error type default-constructs the value before it is overwritten, so that what an empty one owns would leak.
template <class T>
Api<T> named(Result<T> result, const FieldNames& names) {
  if (!result) return tl::unexpected(names.own(ApiError(std::move(result).error())));
  return *std::move(result);
}

}  // namespace

// Anthropic's clients read errors in their own shape.
Reply in_messages_shape(Reply reply) {
  auto* response = std::get_if<HttpResponse>(&reply);
  if (response == nullptr || response->status < 400) return reply;
  const Json body = Json::parse(response->body, nullptr, false);
  const bool usual = body.is_object() && body.contains("error") && body["error"].is_object();
  response->body = dump(messages_error(response->status, usual ? body["error"].value("message", "") : response->body));
  return reply;
}

Reply ApiHandler::responses(HttpCall& call) {
  auto request = std::make_shared<ResponsesRequest>();
  const auto parse = [this, request](const Json& body) -> Api<Call> {
    ISO_TRY(*request, chat_of_responses(body, responses_));
    return named(parse_chat(request->chat, *front(), options_.limits), request->names);
  };
  const auto writer = [this, request](const Call& c, const Frontend& f) { return responses_writer(*request, c, f, responses_); };
  return generate(call, {.name = "responses", .id_prefix = "resp_", .parse = parse, .writer = writer, .own_id = true});
}

Reply ApiHandler::response(HttpCall& call) {
  const std::string id = call.path.substr(std::string_view("/v1/responses/").size());
  const auto entry = responses_.find(id);
  if (!entry) return error_response(Error{Code::not_found, "the response " + shown(Json(id)) + " is not kept here", {}, "the latest ones are, unless store was false"});
  return json_response(entry->response);
}

Reply ApiHandler::delete_response(HttpCall& call) {
  const std::string id = call.path.substr(std::string_view("/v1/responses/").size());
  if (!responses_.erase(id)) return error_response(Error{Code::not_found, "the response " + shown(Json(id)) + " is not kept here", {}, "nothing is left to do"});
  return json_response({{"id", id}, {"object", "response"}, {"deleted", true}});
}

/// The tokens of a request's conversation. `chat_of`: the request as a chat, with the names of its fields; `more`: what stands before the number.
template <class ChatOf>
Reply ApiHandler::count(HttpCall& call, ChatOf chat_of, Json more) {
  auto answer = [&]() -> Api<Json> {
    ISO_TRY(const Json body, body_of(call));
    ISO_CHECK_OK(check_model(body));
    ISO_TRY(const auto request, chat_of(body));
    ISO_TRY(const auto input, named(parse_chat_input(request.chat), request.names));
    ISO_TRY(const auto ids, named(front()->chat_ids(input), request.names));
    more["input_tokens"] = ids.size();
    return std::move(more);
  }();
  return answer ? json_response(*answer) : error_response(answer.error());
}

Reply ApiHandler::count_input(HttpCall& call) {
  return count(call, [this](const Json& body) { return chat_of_responses(body, responses_); }, {{"object", "response.input_tokens"}});
}

Reply ApiHandler::messages(HttpCall& call) {
  const auto parse = [this](const Json& body) -> Api<Call> {
    ISO_TRY(ChatOfMessages chat, chat_of_messages(body, false));
    // Clients send a budget to every model; one that does not think keeps to it.
    if (front()->reasoning_parser() == nullptr) chat.chat.erase("thinking_token_budget");
    return named(parse_chat(chat.chat, *front(), options_.limits), chat.names);
  };
  return generate(call, {.name = "messages", .id_prefix = "msg_", .parse = parse, .writer = messages_writer});
}

Reply ApiHandler::count_tokens(HttpCall& call) {
  return count(call, [](const Json& body) { return chat_of_messages(body, true); }, Json::object());
}

}  // namespace isotope::serve
