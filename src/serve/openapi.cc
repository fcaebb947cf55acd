#include "serve/openapi.h"

#include <algorithm>
#include <cctype>

#include "serve/field_table.h"

namespace isotope::serve {
namespace {

Json ref(const std::string& name) { return {{"$ref", "#/components/schemas/" + name}}; }

// What differs between requests and is no row of the field table.
constexpr const char* kRequests = R"json({
  "ChatMessage": {"type": "object", "required": ["role", "content"], "properties": {"role": {"enum": ["user", "assistant"]}, "content": {"type": ["string", "array"],
    "items": {"type": "object", "required": ["type", "text"], "properties": {"type": {"const": "text"}, "text": {"type": "string"}}}}}},
  "TokenizeRequest": {"type": "object", "properties": {"model": {"type": ["string", "null"]}, "prompt": {"type": ["string", "null"]}, "content": {"type": ["string", "null"]},
    "messages": {"type": ["array", "null"], "items": {"type": "object"}}, "add_special_tokens": {"type": ["boolean", "null"]}, "add_special": {"type": ["boolean", "null"]},
    "parse_special": {"type": ["boolean", "null"]}, "with_pieces": {"type": ["boolean", "null"]}, "return_token_strs": {"type": ["boolean", "null"]}}},
  "DetokenizeRequest": {"type": "object", "required": ["tokens"], "properties": {"model": {"type": ["string", "null"]}, "tokens": {"type": "array", "items": {"type": "integer", "minimum": 0}}}},
  "TemplateRequest": {"type": "object", "required": ["messages"], "properties": {"model": {"type": ["string", "null"]}, "messages": {"type": "array", "items": {"$ref": "#/components/schemas/ChatMessage"}},
    "tools": {"type": ["array", "null"]}, "chat_template_kwargs": {"type": ["object", "null"]}, "add_generation_prompt": {"type": ["boolean", "null"]}}},
  "ResponsesRequest": {"type": "object", "required": ["input"], "properties": {"model": {"type": ["string", "null"]}, "input": {"type": ["string", "array"], "items": {"type": "object"}},
    "instructions": {"type": ["string", "null"]}, "max_output_tokens": {"type": ["integer", "null"], "minimum": 1}, "previous_response_id": {"type": ["string", "null"]}, "stream": {"type": ["boolean", "null"]},
    "temperature": {"type": ["number", "null"], "minimum": 0}, "top_p": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1}, "text": {"type": ["object", "null"]}, "tools": {"type": ["array", "null"]},
    "tool_choice": {"type": ["string", "object", "null"]}, "parallel_tool_calls": {"type": ["boolean", "null"]}, "reasoning": {"type": ["object", "null"]}, "store": {"type": ["boolean", "null"]},
    "truncation": {"enum": ["auto", "disabled", null]}, "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20}, "include": {"type": ["array", "null"], "items": {"type": "string"}},
    "background": {"enum": [false, null]}, "metadata": {"type": ["object", "null"]}, "user": {"type": ["string", "null"]}}},
  "MessagesRequest": {"type": "object", "required": ["messages", "max_tokens"], "properties": {"model": {"type": ["string", "null"]}, "messages": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/ChatMessage"}},
    "max_tokens": {"type": "integer", "minimum": 1}, "system": {"type": ["string", "array", "null"]}, "stream": {"type": ["boolean", "null"]}, "temperature": {"type": ["number", "null"], "minimum": 0},
    "top_p": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1}, "top_k": {"type": ["integer", "null"], "minimum": -1}, "stop_sequences": {"type": ["array", "null"], "items": {"type": "string"}},
    "tools": {"type": ["array", "null"]}, "tool_choice": {"type": ["object", "null"]}, "thinking": {"type": ["object", "null"]}, "output_config": {"type": ["object", "null"]}, "metadata": {"type": ["object", "null"]}}},
  "CountTokensRequest": {"type": "object", "required": ["messages"], "properties": {"model": {"type": ["string", "null"]}, "messages": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/ChatMessage"}},
    "system": {"type": ["string", "array", "null"]}, "tools": {"type": ["array", "null"]}, "tool_choice": {"type": ["object", "null"]}}}
})json";

constexpr const char* kAnswers = R"json({
  "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "object", "required": ["message", "type", "param", "code"], "properties": {"message": {"type": "string"},
    "type": {"type": "string"}, "param": {"type": ["string", "null"]}, "code": {"type": "integer"}}}}},
  "MessagesError": {"type": "object", "required": ["type", "error"], "properties": {"type": {"const": "error"}, "error": {"type": "object", "required": ["type", "message"], "properties": {"type": {"type": "string"},
    "message": {"type": "string"}}}}},
  "Usage": {"type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens"], "properties": {"prompt_tokens": {"type": "integer", "minimum": 0},
    "completion_tokens": {"type": "integer", "minimum": 0}, "total_tokens": {"type": "integer", "minimum": 0}, "prompt_tokens_details": {"type": "object"}}},
  "Completion": {"type": "object", "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {"id": {"type": "string"}, "object": {"const": "text_completion"}, "created": {"type": "integer"},
    "model": {"type": "string"}, "system_fingerprint": {"type": "string"}, "usage": {"$ref": "#/components/schemas/Usage"}, "choices": {"type": "array", "items": {"type": "object", "required": ["index", "text", "finish_reason"],
      "properties": {"index": {"type": "integer"}, "text": {"type": "string"}, "finish_reason": {"enum": ["stop", "length"]}, "logprobs": {"type": ["object", "null"]}}}}}},
  "ChatCompletion": {"type": "object", "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {"id": {"type": "string"}, "object": {"const": "chat.completion"}, "created": {"type": "integer"},
    "model": {"type": "string"}, "system_fingerprint": {"type": "string"}, "usage": {"$ref": "#/components/schemas/Usage"}, "choices": {"type": "array", "items": {"type": "object", "required": ["index", "message", "finish_reason"],
      "properties": {"index": {"type": "integer"}, "finish_reason": {"enum": ["stop", "length", "tool_calls"]}, "logprobs": {"type": ["object", "null"]}, "message": {"type": "object", "required": ["role", "content"],
        "properties": {"role": {"type": "string"}, "content": {"type": ["string", "null"]}, "tool_calls": {"type": "array"}, "reasoning": {"type": "string"}}}}}}}},
  "Response": {"type": "object", "required": ["id", "object", "status", "output", "usage"], "properties": {"id": {"type": "string"}, "object": {"const": "response"},
    "status": {"enum": ["completed", "incomplete"]}, "output": {"type": "array", "items": {"type": "object", "required": ["type", "id"]}}, "usage": {"type": "object"}}},
  "Message": {"type": "object", "required": ["id", "type", "role", "content", "stop_reason", "usage"], "properties": {"id": {"type": "string"}, "type": {"const": "message"}, "role": {"const": "assistant"},
    "content": {"type": "array", "items": {"type": "object", "required": ["type"]}}, "stop_reason": {"enum": ["end_turn", "max_tokens", "stop_sequence", "tool_use"]}, "stop_sequence": {"type": ["string", "null"]}, "usage": {"type": "object"}}},
  "TokenCount": {"type": "object", "required": ["input_tokens"], "properties": {"input_tokens": {"type": "integer", "minimum": 0}}},
  "Embeddings": {"type": "object", "required": ["object", "data", "model", "usage"], "properties": {"object": {"const": "list"}, "model": {"type": "string"}, "usage": {"$ref": "#/components/schemas/Usage"},
    "data": {"type": "array", "items": {"type": "object", "required": ["object", "index", "embedding"], "properties": {"object": {"const": "embedding"}, "index": {"type": "integer"}, "embedding": {"type": ["array", "string"]}}}}}},
  "Reranking": {"type": "object", "required": ["id", "model", "results", "usage"], "properties": {"id": {"type": "string"}, "model": {"type": "string"}, "usage": {"$ref": "#/components/schemas/Usage"},
    "results": {"type": "array", "items": {"type": "object", "required": ["index", "relevance_score"], "properties": {"index": {"type": "integer"}, "relevance_score": {"type": "number"}, "document": {"type": "object"}}}}}},
  "Scores": {"type": "object", "required": ["id", "object", "model", "data", "usage"], "properties": {"id": {"type": "string"}, "object": {"const": "list"}, "model": {"type": "string"}, "usage": {"$ref": "#/components/schemas/Usage"},
    "data": {"type": "array", "items": {"type": "object", "required": ["index", "object", "score"], "properties": {"index": {"type": "integer"}, "object": {"const": "score"}, "score": {"type": "number"}}}}}},
  "Tokens": {"type": "object", "required": ["count", "max_model_len", "tokens"], "properties": {"count": {"type": "integer", "minimum": 0}, "max_model_len": {"type": "integer"}, "tokens": {"type": "array"}, "token_strs": {"type": ["array", "null"]}}},
  "Prompt": {"type": "object", "required": ["prompt"], "properties": {"prompt": {"type": "string"}}},
  "Models": {"type": "object", "required": ["object", "data"], "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}}},
  "Model": {"type": "object", "required": ["id", "object"], "properties": {"id": {"type": "string"}, "object": {"const": "model"}, "max_model_len": {"type": "integer"}}},
  "Version": {"type": "object", "required": ["version"], "properties": {"version": {"type": "string"}}},
  "Load": {"type": "object", "required": ["server_load"], "properties": {"server_load": {"type": "integer", "minimum": 0}}}
})json";

Json from_table(FieldPlace place, std::initializer_list<const char*> required) {
  Json properties = Json::object();
  for (const FieldRow& r : field_table()) {
    if ((r.place & place) != 0) properties[r.name] = field_schema(r);
  }
  if (place == kInChat) {
    properties["logprobs"] = {{"type", {"boolean", "null"}}, {"description", "log-probabilities of the answer's tokens"}};
    properties["messages"]["items"] = ref("ChatMessage");
  }
  return {{"type", "object"}, {"required", Json(std::vector<std::string>(required.begin(), required.end()))}, {"properties", std::move(properties)}};
}

Json schemas() {
  Json out = {{"CompletionRequest", from_table(kInCompletion, {"prompt"})}, {"ChatCompletionRequest", from_table(kInChat, {"messages"})},
              {"EmbeddingRequest", from_table(kInEmbedding, {"input"})}, {"RerankRequest", from_table(kInRerank, {"query", "documents"})},
              {"ScoreRequest", from_table(kInScore, {"text_1", "text_2"})}};
  out.update(Json::parse(kRequests));
  out.update(Json::parse(kAnswers));
  return out;
}

Json body(const char* type, Json schema) { return {{type, {{"schema", std::move(schema)}}}}; }

Json answers(const PathDoc& p) {
  const bool messages = std::string_view(p.path).starts_with("/v1/messages");
  const Json error = {{"description", "refused; the message names field, value and remedy"}, {"content", body("application/json", ref(messages ? "MessagesError" : "Error"))}};
  Json content = std::string_view(p.response) == "text" ? body("text/plain", {{"type", "string"}}) : body("application/json", *p.response != 0 ? ref(p.response) : Json{{"type", "object"}});
  if (std::string_view(p.request) == "CompletionRequest" || std::string_view(p.request) == "ChatCompletionRequest" || std::string_view(p.request) == "ResponsesRequest" ||
      std::string_view(p.request) == "MessagesRequest") {
    content["text/event-stream"] = {{"schema", {{"type", "string"}}}};
  }
  Json out = {{"200", {{"description", "done"}, {"content", std::move(content)}}}};
  for (const char* status : {"400", "401", "404", "405", "413", "415", "429", "501", "503"}) out[status] = error;
  return out;
}

// "/v1/models/*" → "/v1/models/{name}"
std::string templated(std::string_view path, bool& parameter) {
  parameter = path.ends_with("/*") || path.ends_with("/:");
  return parameter ? std::string(path.substr(0, path.size() - 1)) + "{name}" : std::string(path);
}

std::string operation_id(const PathDoc& p) {
  std::string out = p.method;
  for (const char c : std::string_view(p.path)) out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return out;
}

}  // namespace

Json openapi_document(const std::string& version, std::span<const PathDoc> paths, const std::vector<std::string>& models, bool keys) {
  Json out = {{"openapi", "3.1.0"}, {"info", {{"title", "Isotope"}, {"version", version}, {"license", {{"name", "Apache-2.0"}}}}}, {"paths", Json::object()}};
  for (const PathDoc& p : paths) {
    bool parameter = false;
    Json operation = {{"summary", p.summary}, {"operationId", operation_id(p)}};
    Json& at = out["paths"][templated(p.path, parameter)];
    if (parameter) operation["parameters"] = Json::array({{{"name", "name"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}, {"minLength", 1}}}}});
    if (*p.request != 0) operation["requestBody"] = {{"required", true}, {"content", body("application/json", ref(p.request))}};
    operation["responses"] = answers(p);
    std::string method = p.method;
    std::transform(method.begin(), method.end(), method.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    at[method] = std::move(operation);
  }
  out["components"] = {{"schemas", schemas()}};
  for (auto& [name, schema] : out["components"]["schemas"].items()) {
    if (models.empty() || !schema.contains("properties") || !schema["properties"].contains("model") || !name.ends_with("Request")) continue;
    Json& names = schema["properties"]["model"]["enum"];
    for (const std::string& model : models) names.push_back(model);
    names.push_back(nullptr);
  }
  if (keys) {
    out["components"]["securitySchemes"] = {{"key", {{"type", "http"}, {"scheme", "bearer"}}}};
    out["security"] = Json::array({{{"key", Json::array()}}});
  }
  return out;
}

}  // namespace isotope::serve
