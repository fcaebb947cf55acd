// The text pipeline that the server and `isotope run` share: prompts to token ids (chat template, tokenizer) and the model's own defaults.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/heap_keeper.h"
#include "isotope/engine.h"
#include "serve/api_error.h"
#include "serve/messages.h"
#include "serve/pair_text.h"
#include "serve/sampling_defaults.h"
#include "telemetry/metrics.h"
#include "text/cached_tokenizer.h"
#include "text/chat_template.h"
#include "text/grammar/grammar.h"
#include "text/tokenizer.h"

namespace isotope::serve {

struct ToolRow;
struct ReasoningRow;

struct FrontendOptions {
  /// A file, the name of one of the model's or of the built-in templates, or the template itself. Empty: the model's.
  std::string chat_template;
  Json template_kwargs = Json::object();        ///< for every chat request; a request's own win
  bool use_generation_config = true;            ///< take sampling defaults from the model's files
  SamplingDefaults sampling_overrides;          ///< win over the model's files
  int64_t tokenize_cache_bytes = 0;             ///< for ids of long prompts; 0 = none
  size_t tokenize_cache_from = 100'000;         ///< characters of the shortest prompt that it takes
  std::string delta_reuse;                      ///< auto, on, off: whether streams go on from their last update; "": as it is in this process
  int64_t audit_every = 1000;                   ///< updates between two audits of that
  text::GrammarLimits grammar;                  ///< of structured output
  int64_t thinking_budget = -1;                 ///< tokens of reasoning in answers to chats that name none; -1 = no limit
  std::string tool_parser, reasoning_parser;    ///< names; "" takes what the chat template shows, "none" reads nothing
};

/// What a chat request gives the template.
struct ChatInput {
  Json messages = Json::array();
  Json tools, documents;                        ///< null or array
  Json kwargs = Json::object();
  std::optional<std::string> chat_template;     ///< source text that replaces the server's template
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  bool add_special_tokens = false;              ///< the template's text decides about BOS; true lets the tokenizer add its own
};

class Frontend {
 public:
  /// Fails for a `chat_template` option that cannot be read or parsed. A model's own template that cannot be parsed is only a warning, kept
  /// for chat requests to report. The engine must outlive the front end.
  static Result<std::unique_ptr<Frontend>> create(Engine&, std::unique_ptr<text::Tokenizer>, FrontendOptions);

  Engine& engine() const { return engine_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const SamplingDefaults& defaults() const { return defaults_; }
  std::atomic<uint64_t>& next_id() { return next_id_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// How the model writes tool calls and reasoning; null when that is not known or not wanted.
  const ToolRow* tool_parser() const { return tool_parser_; }
  const ReasoningRow* reasoning_parser() const { return reasoning_parser_; }
  int64_t thinking_budget() const { return options_.thinking_budget; }
  bool has_chat_template() const { return chat_template_ != nullptr; }
  /// Source of the template in use; "" without one.
  const std::string& chat_template_source() const { return template_source_; }
  /// Ids that a request may name: the rows of the output head.
  int64_t vocab_size() const { return engine_.info().vocab; }
  int64_t max_model_len() const { return engine_.info().max_model_len; }

  /// The rendered template, cut into template text and content.
  Result<std::vector<text::Tokenizer::Piece>> render(const ChatInput&) const;
  /// Exactly the ids of the reference's apply_chat_template(tokenize=True), but for control-token text inside content, which stays text.
  Result<std::vector<int32_t>> chat_ids(const ChatInput&) const;
  /// The ids of a plain text; `parse_special`: text that spells a control token becomes that token.
  std::vector<int32_t> text_ids(std::string_view text, bool add_special, bool parse_special) const;
  /// Prometheus text about the time that prompts take to become ids, and about the tokenize cache.
  std::string tokenize_metrics() const;

  /// Makes a form ready that a request asks its answers to have. Any thread; waits for the work.
  Result<std::shared_ptr<const text::Grammar>> grammar(const text::GrammarSpec&);
  /// Prometheus text about them; "" before the first one.
  std::string grammar_metrics() const;

  /// How two texts become one input. Any thread.
  Result<const PairTemplate*> pairs();

  /// Named special tokens as text, "bos_token" …; those that the model's files name.
  const Json& special_tokens() const { return special_tokens_; }
  /// tokenizer_config.json, or the same facts gathered from GGUF metadata.
  Json tokenizer_info() const;

 private:
  Frontend(Engine&, std::unique_ptr<text::Tokenizer>, FrontendOptions);
  void open_cache();
  Result<void> choose_template();
  Result<void> choose_parsers();
  void collect_special_tokens();
  Result<const text::ChatTemplate*> template_for(const ChatInput&, std::unique_ptr<text::ChatTemplate>& own) const;
  Result<std::string> find_template_source(const std::string& wanted) const;

  Engine& engine_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  const text::CachedTokenizer* cached_ = nullptr;     ///< `tokenizer_`, if it has a cache
  std::unique_ptr<telemetry::Registry> tokenize_times_;
  FrontendOptions options_;
  SamplingDefaults defaults_;
  Json special_tokens_ = Json::object();
  std::string template_source_;
  std::unique_ptr<text::ChatTemplate> chat_template_;
  std::optional<Error> template_error_;
  const ToolRow* tool_parser_ = nullptr;
  const ReasoningRow* reasoning_parser_ = nullptr;
  std::vector<std::string> warnings_;
  mutable std::mutex grammar_mutex_;
  std::unique_ptr<text::GrammarCompiler> grammars_;   ///< made when first needed: it holds a sorted copy of the vocabulary
  std::mutex pairs_mutex_;
  std::optional<Result<PairTemplate>> pairs_;         ///< read when first needed
  std::atomic<uint64_t> next_id_{1};
  base::Tracked tracked_{"front end", "serve"};
};

}  // namespace isotope::serve
