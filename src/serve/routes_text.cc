// Tokens and templates: /tokenize, /detokenize, /tokenizer_info, /apply-template in vLLM's and llama-server's shapes.
#include "serve/api.h"
#include "serve/token_names.h"

namespace isotope::serve {
namespace {

// vLLM: {prompt | messages, add_special_tokens}; llama-server: {content, add_special, parse_special, with_pieces}.
Result<std::vector<int32_t>> ids_of(const Json& body, const Frontend& front, const Fields& f) {
  ISO_TRY(const auto add_special_tokens, f.boolean("add_special_tokens"));
  ISO_TRY(const auto add_special, f.boolean("add_special"));
  ISO_TRY(const auto parse_special, f.boolean("parse_special"));
  if (f.has("messages")) {
    ISO_TRY(const auto input, parse_chat_input(body));
    return front.chat_ids(input);
  }
  const bool llama = f.has("content");
  ISO_TRY(const auto text, f.string(llama ? "content" : "prompt"));
  if (!text) return bad_field("prompt", "the request has neither prompt, messages nor content", "send one of them");
  return front.text_ids(*text, llama ? add_special.value_or(false) : add_special_tokens.value_or(true), parse_special.value_or(true));
}

// llama-server's with_pieces: text where it is text, bytes where it is a part of a character.
Json pieces(const Frontend& front, const std::vector<int32_t>& ids) {
  Json out = Json::array();
  for (const int32_t id : ids) {
    const std::string bytes = front.tokenizer().token_bytes(id);
    Json piece = Json::array();
    for (const char c : bytes) piece.push_back(static_cast<unsigned char>(c));
    out.push_back({{"id", id}, {"piece", is_utf8(bytes) ? Json(bytes) : std::move(piece)}});
  }
  return out;
}

}  // namespace

Reply ApiHandler::tokenize(HttpCall& call) {
  auto answer = [&]() -> Api<Json> {
    ISO_TRY(const Json body, body_of(call));
    ISO_CHECK_OK(check_model(body));
    const Fields f(body);
    ISO_TRY(const auto ids, ids_of(body, *front(), f));
    ISO_TRY(const auto with_pieces, f.boolean("with_pieces"));
    ISO_TRY(const auto with_strings, f.boolean("return_token_strs"));
    Json out = {{"count", ids.size()}, {"max_model_len", front()->max_model_len()}, {"tokens", ids}, {"token_strs", nullptr}};
    if (with_pieces.value_or(false)) out["tokens"] = pieces(*front(), ids);
    if (with_strings.value_or(false)) {
      out["token_strs"] = Json::array();
      for (const int32_t id : ids) out["token_strs"].push_back(std::string(front()->tokenizer().token_text(id)));
    }
    return out;
  }();
  return answer ? json_response(*answer) : error_response(answer.error());
}

Reply ApiHandler::detokenize(HttpCall& call) {
  auto answer = [&]() -> Api<Json> {
    ISO_TRY(const Json body, body_of(call));
    ISO_CHECK_OK(check_model(body));
    const Fields f(body);
    if (!f.has("tokens")) return tl::unexpected(field_error("tokens", "the request has no tokens", "send an array of token ids"));
    ISO_TRY(const auto ids, f.ids("tokens", 0, front()->vocab_size() - 1));
    const std::string text = front()->tokenizer().decode(ids, false);
    return Json{{"prompt", text}, {"content", text}};
  }();
  return answer ? json_response(*answer) : error_response(answer.error());
}

Reply ApiHandler::tokenizer_info(HttpCall&) { return json_response(front()->tokenizer_info()); }

Reply ApiHandler::apply_template(HttpCall& call) {
  auto answer = [&]() -> Api<Json> {
    ISO_TRY(const Json body, body_of(call));
    ISO_CHECK_OK(check_model(body));
    ISO_TRY(const auto input, parse_chat_input(body));
    ISO_TRY(const auto rendered, front()->render(input));
    std::string text;
    for (const auto& piece : rendered) text += piece.text;
    return Json{{"prompt", std::move(text)}};
  }();
  return answer ? json_response(*answer) : error_response(answer.error());
}

}  // namespace isotope::serve
