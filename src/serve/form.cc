#include "serve/form.h"

#include <algorithm>
#include <utility>

#include "serve/tools/markup.h"

namespace isotope::serve {

Result<std::shared_ptr<const text::Grammar>> Frontend::grammar(const text::GrammarSpec& spec) {
  text::GrammarCompiler* compiler = nullptr;
  {
    const std::lock_guard lock(grammar_mutex_);
    if (!grammars_) {
      grammars_ = text::GrammarCompiler::create(*tokenizer_, vocab_size(), engine_.info().eos_ids, markup_of(tool_parser_, reasoning_parser_), options_.grammar);
    }
    compiler = grammars_.get();
  }
  return compiler->compile(spec);
}

std::string Frontend::grammar_metrics() const {
  const std::lock_guard lock(grammar_mutex_);
  if (!grammars_) return {};
  const text::GrammarCounters& c = grammars_->counters();
  std::string out;
  const auto add = [&](const char* name, const char* help, double value) {
    out += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " counter\n" + name + " " + Json(value).dump() + "\n";
  };
  add("isotope:grammars_compiled_total", "Grammars made ready for structured output.", double(c.compiled));
  add("isotope:grammars_reused_total", "Requests that found their grammar ready.", double(c.reused));
  add("isotope:grammars_refused_total", "Requests whose grammar was refused.", double(c.refused));
  add("isotope:grammars_timed_out_total", "Grammars that were not ready in time.", double(c.timed_out));
  add("isotope:grammar_compile_seconds_total", "Time that requests waited for their grammar.", double(c.compile_ns) * 1e-9);
  add("isotope:grammar_masks_total", "Token masks made.", double(c.masks));
  add("isotope:grammar_mask_seconds_total", "Time to make token masks, over all threads.", double(c.mask_ns) * 1e-9);
  add("isotope:grammar_accept_seconds_total", "Time to advance grammars by a token.", double(c.accept_ns) * 1e-9);
  return out;
}

Result<void> prepare_form(Frontend& front, Call& call) {
  if (!call.form) return {};
  const bool calls_in_channels = call.reply.tools != nullptr && call.reply.tools->whole && call.form->at == "tools";   // their format begins with the reasoning
  if (!calls_in_channels) call.form->prefix = reasoning_prefix(call.reply);
  auto ready = front.grammar(*call.form);
  if (!ready) {
    Error e = std::move(ready).error();
    return tl::unexpected(field_error(e.source, std::move(e.what), std::move(e.remedy), e.code));
  }
  call.spec.grammar = *std::move(ready);
  return {};
}

}  // namespace isotope::serve
