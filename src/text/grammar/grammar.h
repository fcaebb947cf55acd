// Structured output: a grammar, made ready for a vocabulary, and the masks that keep one sequence to it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "isotope/result.h"
#include "isotope/token_mask.h"
#include "text/grammar/schema.h"
#include "text/tokenizer.h"

namespace isotope::text {

/// What an answer must be.
struct GrammarSpec {
  enum class Kind { json, json_schema, regex, choice, ebnf, structural_tag };
  Kind kind = Kind::json;
  nlohmann::ordered_json value;      ///< schema, text, array of texts, text, structural tag; json: unused
  bool any_whitespace = true;        ///< JSON may be laid out freely; false: one space after ':' and ','
  bool closed = false;               ///< JSON objects get their named properties only
  /// A format of a structural tag that comes first, for example reasoning; null for none.
  nlohmann::ordered_json prefix;
  nlohmann::ordered_json alternative;   ///< another format that the answer may have instead; null for none
  std::string at;                    ///< path of the request field, for errors
};

struct GrammarLimits {
  SchemaLimits schema;
  size_t max_text = 64 << 10;        ///< bytes of a regular expression or a grammar
  size_t max_memory = 256 << 20;     ///< bytes of ready grammars kept for requests to come
  int compile_ms = 10000;            ///< a grammar that takes longer is refused
  int compile_threads = 2;           ///< at once; more wait
  int sequence_ms = 2000;            ///< a sequence whose masks have taken longer than this, and than token_ms for each of its tokens, is ended
  int token_ms = 20;
};

/// Counted since the start, over all grammars of a compiler.
struct GrammarCounters {
  std::atomic<int64_t> compiled{0}, compile_ns{0}, reused{0}, refused{0}, timed_out{0};
  std::atomic<int64_t> masks{0}, mask_ns{0}, accepted{0}, accept_ns{0};
};

/// Ready for use, shared by the choices of a call and by later calls.
class Grammar {
 public:
  virtual ~Grammar() = default;
  /// A fresh state for one sequence. Each is used by one thread at a time.
  virtual std::unique_ptr<TokenMask> mask() const = 0;
};

class GrammarCompiler {
 public:
  /// `vocab`: rows of the output head. `ends`: tokens that end a text; they are allowed once the grammar is complete, and only then. `markup`: texts
  /// whose control tokens a grammar may ask for (tags of tool calls and reasoning); all others stay forbidden.
  static std::unique_ptr<GrammarCompiler> create(const Tokenizer&, int64_t vocab, std::vector<int32_t> ends, std::vector<std::string> markup = {},
                                                 const GrammarLimits& = {});
  virtual ~GrammarCompiler() = default;

  /// Thread-safe; waits for the work. Errors name the field and the keyword: invalid_argument and unsupported are the request's fault.
  virtual Result<std::shared_ptr<const Grammar>> compile(const GrammarSpec&) = 0;
  virtual const GrammarCounters& counters() const = 0;
};

}  // namespace isotope::text
