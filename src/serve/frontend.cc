#include "serve/frontend.h"

#include <utility>

#include "serve/template_choice.h"
#include "serve/tools/registry.h"

namespace isotope::serve {
namespace {

// A special token stands in tokenizer_config.json as a string or as {"content": …}.
std::optional<std::string> token_text(const Json& v) {
  if (v.is_string()) return v.get<std::string>();
  if (v.is_object()) {
    const auto it = v.find("content");
    if (it != v.end() && it->is_string()) return it->get<std::string>();
  }
  return std::nullopt;
}

void take_tokens(const std::string& json, Json& into) {
  if (json.empty()) return;
  const auto parsed = parse_json(json);
  if (!parsed || !parsed->is_object()) return;
  for (const auto& [key, value] : parsed->items()) {
    if (!key.ends_with("_token")) continue;
    if (auto text = token_text(value)) into[key] = *std::move(text);
  }
}

}  // namespace

Frontend::Frontend(Engine& engine, std::unique_ptr<text::Tokenizer> tokenizer, FrontendOptions options)
    : engine_(engine), tokenizer_(std::move(tokenizer)), options_(std::move(options)) {}

Result<std::unique_ptr<Frontend>> Frontend::create(Engine& engine, std::unique_ptr<text::Tokenizer> tokenizer, FrontendOptions options) {
  std::unique_ptr<Frontend> f(new Frontend(engine, std::move(tokenizer), std::move(options)));
  if (f->options_.use_generation_config) {
    auto defaults = SamplingDefaults::parse(engine.vocab().generation_config_json, "generation_config.json");
    if (defaults) {
      f->defaults_ = *defaults;
    } else {
      f->warnings_.push_back("sampling defaults of the model are not used: " + defaults.error().message());
    }
  }
  f->defaults_.merge(f->options_.sampling_overrides);
  f->open_cache();
  f->collect_special_tokens();
  ISO_CHECK_OK(f->choose_template());
  ISO_CHECK_OK(f->choose_parsers());
  return f;
}

void Frontend::collect_special_tokens() {
  const VocabSource& v = engine_.vocab();
  const std::pair<const char*, int32_t> ids[] = {
      {"bos_token", v.bos_id}, {"eos_token", v.eos_id}, {"unk_token", v.unk_id}, {"pad_token", v.pad_id}};
  for (const auto& [name, id] : ids) {
    if (id < 0) continue;
    const std::string_view text = tokenizer_->token_text(id);
    if (!text.empty()) special_tokens_[name] = std::string(text);
  }
  take_tokens(v.special_tokens_map_json, special_tokens_);
  take_tokens(v.tokenizer_config_json, special_tokens_);
}

Result<void> Frontend::choose_template() {
  const bool asked = !options_.chat_template.empty();
  if (asked) {
    ISO_TRY(template_source_, find_template(options_.chat_template, engine_.vocab()));
  } else {
    template_source_ = model_template(engine_.vocab());
  }
  if (template_source_.empty()) return {};
  auto parsed = text::ChatTemplate::parse(template_source_);
  if (parsed) {
    chat_template_ = *std::move(parsed);
    return {};
  }
  Error e = std::move(parsed).error();
  if (e.remedy.empty()) e.remedy = "choose another one with --chat-template";
  if (asked) {
    if (e.source.empty()) e.source = "--chat-template";
    return tl::unexpected(std::move(e));
  }
  if (e.source.empty()) e.source = "the model's chat template";
  warnings_.push_back("chat requests will be refused: " + e.message());
  template_error_ = std::move(e);
  return {};
}

Result<void> Frontend::choose_parsers() {
  ISO_TRY(tool_parser_, find_tool_parser(options_.tool_parser, template_source_));
  ISO_TRY(reasoning_parser_, find_reasoning_parser(options_.reasoning_parser, template_source_));
  const bool asked = !options_.tool_parser.empty() && tool_parser_ != nullptr;
  if (asked && template_source_.find("tools") == std::string::npos) {
    warnings_.push_back("the chat template does not show tools, so the model will not learn of them; choose another one with --chat-template");
  }
  return {};
}

Result<const text::ChatTemplate*> Frontend::template_for(const ChatInput& in, std::unique_ptr<text::ChatTemplate>& own) const {
  if (in.chat_template) {
    ISO_TRY(const std::string source, find_template_source(*in.chat_template));
    auto parsed = text::ChatTemplate::parse(source);
    if (!parsed) {
      const Error& e = parsed.error();   // its source is the row and column
      return bad_field("chat_template", e.source.empty() ? e.what : e.what + " (" + e.source + ")", e.remedy);
    }
    own = *std::move(parsed);
    return own.get();
  }
  if (chat_template_) return chat_template_.get();
  if (template_error_) return tl::unexpected(*template_error_);
  return fail(Code::invalid_argument, "this model has no chat template", {}, "send 'chat_template', or start the server with --chat-template");
}

// A name chooses among the model's own templates; anything else is the template itself. Never a file: requests must not read this machine's disk.
Result<std::string> Frontend::find_template_source(const std::string& wanted) const {
  for (const auto& [name, source] : engine_.vocab().named_templates) {
    if (name == wanted) return source;
  }
  return wanted;
}

Result<std::vector<text::Tokenizer::Piece>> Frontend::render(const ChatInput& in) const {
  std::unique_ptr<text::ChatTemplate> own;
  ISO_TRY(const text::ChatTemplate* chosen, template_for(in, own));
  text::ChatTemplate::Input input;
  ISO_TRY(const std::string source, in.chat_template ? find_template_source(*in.chat_template) : Result<std::string>(template_source_));
  ISO_TRY(input.messages, template_messages(in.messages, takes_content_parts(source)));
  ISO_CHECK_OK(check_roles(input.messages, source));
  input.tools = in.tools;
  input.extra = options_.template_kwargs.is_object() ? options_.template_kwargs : Json::object();
  for (const auto& [key, value] : in.kwargs.items()) input.extra[key] = value;
  if (!in.documents.is_null()) input.extra["documents"] = in.documents;
  input.add_generation_prompt = in.add_generation_prompt;
  input.special_tokens = special_tokens_;
  input.bos_token = special_tokens_.value("bos_token", "");
  input.eos_token = special_tokens_.value("eos_token", "");
  ISO_TRY(auto pieces, chosen->render_pieces(input));
  if (in.continue_final_message) ISO_CHECK_OK(cut_after_final_message(pieces, input.messages));
  return pieces;
}

Result<const PairTemplate*> Frontend::pairs() {
  const std::lock_guard lock(pairs_mutex_);
  if (!pairs_) pairs_ = PairTemplate::read(engine_.vocab(), frame_of(*tokenizer_));
  if (!*pairs_) return tl::unexpected(pairs_->error());
  return &**pairs_;
}

Json Frontend::tokenizer_info() const {
  const VocabSource& v = engine_.vocab();
  Json out = Json::object();
  if (!v.tokenizer_config_json.empty()) {
    auto parsed = parse_json(v.tokenizer_config_json);
    if (parsed && parsed->is_object()) out = *std::move(parsed);
  }
  for (const auto& [key, value] : special_tokens_.items()) out[key] = value;
  if (!out.contains("tokenizer_class")) out["tokenizer_class"] = "PreTrainedTokenizerFast";
  out["add_bos_token"] = tokenizer_->adds_bos();
  out["model_max_length"] = max_model_len();
  out["vocab_size"] = tokenizer_->size();
  if (!template_source_.empty()) out["chat_template"] = template_source_;
  return out;
}

}  // namespace isotope::serve
