// Stands in for src/text/grammar where xgrammar cannot be compiled (clang before 17): every form is refused as one that cannot be had.
#include "text/grammar/grammar.h"

namespace isotope::text {
namespace {

class NoGrammars final : public GrammarCompiler {
 public:
  Result<std::shared_ptr<const Grammar>> compile(const GrammarSpec& spec) override {
    return fail(Code::unsupported, "this build has no structured output", spec.at, "build it with another compiler");
  }
  const GrammarCounters& counters() const override { return counters_; }

 private:
  GrammarCounters counters_;
};

}  // namespace

std::unique_ptr<GrammarCompiler> GrammarCompiler::create(const Tokenizer&, int64_t, std::vector<int32_t>, std::vector<std::string>, const GrammarLimits&) {
  return std::make_unique<NoGrammars>();
}

}  // namespace isotope::text
