#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "text/grammar/mask.h"
#include "text/grammar/spec_check.h"
#include "text/grammar/xgrammar_api.h"
#include "text/grammar/xgrammar_log.h"

namespace isotope::text {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int kMaxRecursion = 1000;

std::string dumped(const Json& v) { return v.dump(-1, ' ', false, Json::error_handler_t::replace); }

class Ready final : public Grammar {
 public:
  Ready(xgrammar::CompiledGrammar compiled, std::shared_ptr<GrammarCounters> counters, const GrammarLimits& limits)
      : compiled_(std::move(compiled)), counters_(std::move(counters)), limits_(limits) {}
  std::unique_ptr<TokenMask> mask() const override { return make_mask(compiled_, counters_, limits_); }
  size_t bytes() const { return compiled_.MemorySizeBytes(); }

 private:
  xgrammar::CompiledGrammar compiled_;
  std::shared_ptr<GrammarCounters> counters_;
  GrammarLimits limits_;
};

xgrammar::Grammar from_tag(const Json& format, const xgrammar::TokenizerInfo& tokens) {
  const Json whole = format.contains("format") || format.contains("structures") || format.contains("triggers") ? format : Json{{"type", "structural_tag"}, {"format", format}};
  auto made = xgrammar::Grammar::FromStructuralTag(dumped(whole), tokens);
  if (const auto* error = std::get_if<1>(&made)) {
    std::visit([](const auto& e) { throw std::runtime_error(e.what()); }, *error);
  }
  return std::get<0>(std::move(made));
}

xgrammar::Grammar from_schema(const GrammarSpec& spec, const Json& schema) {
  const std::optional<int> spaces = spec.any_whitespace ? std::optional(kMostSpaces) : std::nullopt;
  return xgrammar::Grammar::FromJSONSchema(dumped(schema), spec.any_whitespace, std::nullopt, std::nullopt, true, spaces);
}

xgrammar::Grammar answer_of(const GrammarSpec& spec, const xgrammar::TokenizerInfo& tokens) {
  switch (spec.kind) {
    case GrammarSpec::Kind::json: return from_schema(spec, {{"type", "object"}, {"additionalProperties", Json::object()}});
    case GrammarSpec::Kind::json_schema: return from_schema(spec, spec.value);
    case GrammarSpec::Kind::regex: return xgrammar::Grammar::FromRegex(spec.value.get<std::string>());
    case GrammarSpec::Kind::ebnf: return xgrammar::Grammar::FromEBNF(spec.value.get<std::string>());
    case GrammarSpec::Kind::structural_tag: return from_tag(spec.value, tokens);
    case GrammarSpec::Kind::choice: break;
  }
  Json any = Json::array();
  for (const Json& text : spec.value) any.push_back({{"type", "const_string"}, {"value", text}});
  return from_tag(any.size() == 1 ? any[0] : Json{{"type", "or"}, {"elements", std::move(any)}}, tokens);
}

// The library's message without the condition that it checked and without line ends.
std::string told(std::string_view message) {
  if (const size_t at = message.find(" is false: "); message.starts_with("Check failed") && at != std::string_view::npos) message.remove_prefix(at + 11);
  std::string out(message.substr(0, 300));
  for (char& c : out) c = c == '\n' || c == '\r' ? ' ' : c;
  return out;
}

/// What the threads at work and the compiler share: a thread may outlive a compiler that has given it up.
struct Shared {
  Shared(xgrammar::TokenizerInfo t, const GrammarLimits& l) : tokens(std::move(t)), limits(l) {}
  xgrammar::TokenizerInfo tokens;
  std::shared_ptr<GrammarCounters> counters = std::make_shared<GrammarCounters>();
  GrammarLimits limits;
  std::mutex mutex;
  std::condition_variable change;
  int at_work = 0;

  Result<std::shared_ptr<const Ready>> make(const GrammarSpec& spec) const;
};

Result<std::shared_ptr<const Ready>> Shared::make(const GrammarSpec& spec) const {
  const XgrammarWarnings warnings;
  try {
    xgrammar::Grammar grammar = answer_of(spec, tokens);
    if (!spec.alternative.is_null()) grammar = xgrammar::Grammar::Union({grammar, from_tag(spec.alternative, tokens)});
    if (!spec.prefix.is_null()) grammar = xgrammar::Grammar::Concat({from_tag(spec.prefix, tokens), grammar});
    if (!warnings.list().empty()) return fail(Code::unsupported, "the grammar cannot be held: " + told(warnings.list()[0]), spec.at, "leave that part out");
    xgrammar::GrammarCompiler compiler(tokens, 1, false);
    return std::make_shared<const Ready>(compiler.CompileGrammar(grammar), counters, limits);
  } catch (const std::bad_alloc&) {
    return fail(Code::unsupported, "the grammar takes too much memory", spec.at, "make it smaller");
  } catch (const std::exception& e) {
    return fail(Code::invalid_argument, "the grammar cannot be used: " + told(e.what()), spec.at, "correct it");
  }
}

class Compiler final : public GrammarCompiler {
 public:
  explicit Compiler(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  Result<std::shared_ptr<const Grammar>> compile(const GrammarSpec& spec) override;
  const GrammarCounters& counters() const override { return *shared_->counters; }

 private:
  struct Kept {
    std::string key;
    std::shared_ptr<const Ready> grammar;
    size_t bytes;
  };
  std::shared_ptr<const Ready> find(const std::string& key);
  void keep(std::string key, std::shared_ptr<const Ready>);
  Result<std::shared_ptr<const Ready>> in_time(const GrammarSpec&);

  std::shared_ptr<Shared> shared_;
  std::mutex mutex_;
  std::list<Kept> kept_;   // the latest used first
  std::map<std::string_view, std::list<Kept>::iterator> by_key_;
  size_t bytes_ = 0;
};

std::string key_of(const GrammarSpec& s) { 
  return fmt::format("{} {} {} {} {}", int(s.kind), s.any_whitespace, dumped(s.value), dumped(s.prefix), dumped(s.alternative));
}

Result<std::shared_ptr<const Grammar>> Compiler::compile(const GrammarSpec& asked) {
  auto& counters = *shared_->counters;
  auto checked = check_spec(asked, shared_->limits);
  if (!checked) {
    ++counters.refused;
    return tl::unexpected(std::move(checked).error());
  }
  std::string key = key_of(*checked);
  if (auto found = find(key)) {
    ++counters.reused;
    return found;
  }
  const auto begin = Clock::now();
  auto made = in_time(*checked);
  counters.compile_ns += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
  if (!made) {
    ++counters.refused;
    return tl::unexpected(std::move(made).error());
  }
  ++counters.compiled;
  keep(std::move(key), *made);
  return *made;
}

std::shared_ptr<const Ready> Compiler::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto it = by_key_.find(key);
  if (it == by_key_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, it->second);
  return it->second->grammar;
}

void Compiler::keep(std::string key, std::shared_ptr<const Ready> grammar) {
  const size_t bytes = grammar->bytes() + key.size();
  const std::lock_guard lock(mutex_);
  if (by_key_.contains(key) || bytes > shared_->limits.max_memory / 2) return;
  kept_.push_front({std::move(key), std::move(grammar), bytes});
  by_key_[kept_.front().key] = kept_.begin();
  bytes_ += bytes;
  while (bytes_ > shared_->limits.max_memory) {
    bytes_ -= kept_.back().bytes;
    by_key_.erase(kept_.back().key);
    kept_.pop_back();
  }
}

// The library cannot be interrupted. A thread of its own works for as long as it takes; who waits has an answer in time.
Result<std::shared_ptr<const Ready>> Compiler::in_time(const GrammarSpec& spec) {
  struct Job {
    GrammarSpec spec;
    std::optional<Result<std::shared_ptr<const Ready>>> result;
  };
  const auto until = Clock::now() + std::chrono::milliseconds(shared_->limits.compile_ms);
  auto job = std::make_shared<Job>(Job{.spec = spec, .result = {}});
  std::unique_lock lock(shared_->mutex);
  if (!shared_->change.wait_until(lock, until, [&] { return shared_->at_work < shared_->limits.compile_threads; })) {
    return fail(Code::resource_exhausted, "other grammars are still being made ready", spec.at, "send the request again later");
  }
  ++shared_->at_work;
  try {
    std::thread([shared = shared_, job] {
      auto made = shared->make(job->spec);
      const std::lock_guard end(shared->mutex);
      job->result = std::move(made);
      --shared->at_work;
      shared->change.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    --shared_->at_work;
    return fail(Code::resource_exhausted, "no thread can be started to make the grammar ready", spec.at, "send the request again later");
  }
  if (shared_->change.wait_until(lock, until, [&] { return job->result.has_value(); })) return *std::move(job->result);
  ++shared_->counters->timed_out;
  return fail(Code::unsupported, fmt::format("the grammar is not ready after {} ms", shared_->limits.compile_ms), spec.at, "make it simpler");
}

std::vector<std::string> vocabulary(const Tokenizer& tok, int64_t rows, const std::vector<std::string>& markup) {
  std::vector<std::string> out(static_cast<size_t>(rows));
  for (int64_t id = 0; id < std::min(rows, tok.size()); ++id) {
    std::string bytes = tok.token_bytes(int32_t(id));
    const auto holds = [&](const std::string& text) { return text.find(bytes) != std::string::npos; };
    if (tok.is_special(int32_t(id)) && std::none_of(markup.begin(), markup.end(), holds)) continue;
    out[size_t(id)] = std::move(bytes);
  }
  return out;
}

}  // namespace

std::unique_ptr<GrammarCompiler> GrammarCompiler::create(const Tokenizer& tok, int64_t vocab, std::vector<int32_t> ends, std::vector<std::string> markup,
                                                         const GrammarLimits& limits) {
  xgrammar::SetMaxRecursionDepth(kMaxRecursion);
  std::erase_if(ends, [&](int32_t id) { return id < 0 || id >= vocab; });
  xgrammar::TokenizerInfo tokens(vocabulary(tok, vocab, markup), xgrammar::VocabType::RAW, int(vocab), std::move(ends));
  return std::make_unique<Compiler>(std::make_shared<Shared>(std::move(tokens), limits));
}

}  // namespace isotope::text
