// Any bytes as a form that answers shall have: a schema, a regular expression, a grammar, choices, a structural tag. It is refused with the field and a
// reason, or it gives masks that always leave a token, which can be followed to the end.
// The first byte chooses the kind, the second how the masks are followed.
#include <algorithm>
#include <cstdlib>

#include "serve/json_body.h"
#include "support/byte_tokenizer.h"
#include "text/grammar/grammar.h"

namespace {

using namespace isotope;
using Kind = text::GrammarSpec::Kind;

void require(bool ok) {
  if (!ok) std::abort();
}

text::GrammarCompiler& compiler() {
  static auto* tok = new test::ByteTokenizer();
  static auto made = text::GrammarCompiler::create(*tok, tok->size(), {tok->eos_id()}, {"<|im_end|>"}, {.compile_ms = 3000});
  return *made;
}

/// Takes allowed tokens one after another.
void follow(TokenMask& mask, uint32_t choice) {
  std::vector<uint32_t> bits((test::ByteTokenizer::kSize + 31) / 32);
  int taken = 0;
  for (int i = 0; i < 60; i++) {
    std::fill(bits.begin(), bits.end(), 0u);
    const bool limited = mask.fill(bits);
    if (!mask.problem().empty()) return;
    std::vector<int32_t> allowed;
    for (int32_t id = 0; id < test::ByteTokenizer::kSize; id++)
      if (!limited || (bits[size_t(id) / 32] >> (id % 32) & 1)) allowed.push_back(id);
    require(!allowed.empty());
    choice = choice * 1664525 + 1013904223;
    const int32_t id = allowed[choice / 7 % allowed.size()];
    if (id == test::ByteTokenizer::kEos) return;
    require(mask.accept(id));
    taken++;
    if (choice % 11 == 0) {
      const int back = std::min(taken, 3);
      mask.rollback(back);
      taken -= back;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  constexpr Kind kKinds[] = {Kind::json_schema, Kind::regex, Kind::ebnf, Kind::choice, Kind::structural_tag};
  const std::string input(reinterpret_cast<const char*>(data + 2), size - 2);
  text::GrammarSpec spec{.kind = kKinds[data[0] % std::size(kKinds)], .any_whitespace = (data[0] & 64) != 0, .at = "field"};
  const bool json = spec.kind != Kind::regex && spec.kind != Kind::ebnf;
  if (json) {
    const auto parsed = serve::parse_json(input);
    if (!parsed) return 0;
    const auto text = [](const nlohmann::json& j) { return j.is_string(); };
    if (spec.kind == Kind::choice && !(parsed->is_array() && std::all_of(parsed->begin(), parsed->end(), text))) return 0;  // so the API's fields are
    spec.value = nlohmann::ordered_json::parse(parsed->dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    if (!nlohmann::json(input).is_string()) return 0;
    spec.value = input;
  }
  const auto grammar = compiler().compile(spec);
  if (!grammar) {
    require(!grammar.error().what.empty() && grammar.error().source.starts_with("field"));
    return 0;
  }
  follow(*(*grammar)->mask(), data[1]);
  return 0;
}
