// Chat templates: a Jinja engine that renders as the Python reference does (jinja2's ImmutableSandboxedEnvironment as transformers sets it up:
// trim_blocks, lstrip_blocks, loop controls, tojson without HTML escapes, strftime_now, raise_exception, generation blocks).
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "isotope/result.h"
#include "text/tokenizer.h"

namespace isotope::text {

class ChatTemplate {
 public:
  /// Parse errors carry row and column.
  static Result<std::unique_ptr<ChatTemplate>> parse(std::string source);
  ~ChatTemplate();

  struct Input {
    nlohmann::ordered_json messages;                ///< array
    nlohmann::ordered_json tools;                   ///< array or null
    nlohmann::ordered_json extra;                   ///< chat_template_kwargs and further variables (documents …), object or null
    bool add_generation_prompt = true;
    std::string bos_token, eos_token;
    nlohmann::ordered_json special_tokens;          ///< other named tokens (pad_token …), object or null
    std::optional<int64_t> now;                     ///< seconds since the epoch, UTC as local time; unset = clock
  };
  /// The rendered text. raise_exception('x') gives Code::invalid_argument with the text x. Bounded in output size, steps and depth.
  Result<std::string> render(const Input&) const;
  /// The same text, cut into template text (special = true) and text that came out of messages or tools (special = false).
  Result<std::vector<Tokenizer::Piece>> render_pieces(const Input&) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isotope::text
