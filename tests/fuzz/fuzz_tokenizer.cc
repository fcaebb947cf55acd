// Any bytes as a tokenizer: one component of tokenizer.json, a regular expression, GGUF facts or a whole tokenizer.json, and a text to encode and decode.
// Input: one byte that chooses, the description, a NUL, the text.
#include <cstdlib>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/regex.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace isotope::text {
namespace {

void require(bool ok) {
  if (!ok) std::abort();
}

void use(const Tokenizer& tok, std::string_view text) {
  const Tokenizer::Piece pieces[] = {{std::string(text.substr(0, text.size() / 2)), true}, {std::string(text.substr(text.size() / 2)), false}};
  std::vector<int32_t> ids = tok.encode(text, true, true);
  const auto mixed = tok.encode_pieces(pieces, false);
  for (const int32_t id : ids) require(id >= 0);
  for (const char c : text.substr(0, 64)) ids.push_back(int32_t(uint8_t(c)) - 3);
  if (ids.size() > 2000) ids.resize(2000);
  for (const bool skip : {false, true}) {
    Detokenizer stream(tok, skip);
    std::string out;
    for (const int32_t id : ids) {
      const std::string piece = stream.add(id);
      require(valid_utf8(piece));
      out += piece;
    }
    require(out + stream.finish() == tok.decode(ids, skip));
  }
  for (const int32_t id : mixed) (void)tok.token_bytes(id);
}

void run(const VocabSource& source, std::string_view text) {
  if (const auto tok = Tokenizer::create(source)) use(**tok, text);
}

void component(std::string_view section, std::string_view description, std::string_view text) {
  std::string json = R"({"version":"1.0","added_tokens":[{"content":"<s>","special":true},{"content":"  "}],"model":{"type":"BPE","vocab":)"
                     R"({"a":0,"b":1,"ab":2,"<unk>":3,"c":4,"▁":5,"▁a":6},"merges":[["a","b"],["▁","a"]],"unk_token":"<unk>"},")";
  json.append(section).append("\":").append(description).append("}");
  VocabSource source;
  source.tokenizer_json = std::move(json);
  run(source, text);
}

void pattern(std::string_view description, std::string_view text) {
  const auto regex = Regex::compile(description);
  if (!regex || !valid_utf8(text)) return;
  RegexWork work;
  work.begin(text.size());
  size_t last = 0;
  (*regex)->for_each(text, work, [&](Span s) {
    require(s.begin >= last && s.end >= s.begin && s.end <= text.size());
    last = s.end;
  });
}

void facts(std::string_view description, std::string_view text) {
  constexpr std::string_view kModels[] = {"gpt2", "llama", "t5", "bert"}, kPres[] = {"default", "smollm", "llama-bpe", "falcon", "qwen2", "nobody"};
  VocabSource v;
  const auto byte = [&](size_t i) { return i < description.size() ? uint8_t(description[i]) : uint8_t(0); };
  v.gguf_model = kModels[byte(0) % std::size(kModels)];
  v.gguf_pre = kPres[byte(1) % std::size(kPres)];
  v.bos_id = byte(2) % 8 - 1, v.eos_id = byte(3) % 8 - 1, v.unk_id = byte(4) % 8 - 1;
  if (byte(5) & 1) v.add_space_prefix = byte(5) & 2;
  for (size_t i = 6; i + 2 < description.size();) {  // length, type, score, text
    const size_t n = byte(i) % 9;
    v.token_types.push_back(byte(i + 1) % 8);
    v.scores.push_back(float(int8_t(byte(i + 2))));
    v.tokens.emplace_back(description.substr(std::min(i + 3, description.size()), n));
    i += 3 + n;
  }
  for (size_t i = 2; i < v.tokens.size(); i++) v.merges.push_back(v.tokens[i - 2] + " " + v.tokens[i - 1]);
  if (byte(5) & 4) v.merges.clear();
  if (byte(5) & 8) v.precompiled_charsmap = description;
  run(v, text);
}

}  // namespace
}  // namespace isotope::text

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace isotope::text;
  if (size < 2) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t nul = all.find('\0');
  const std::string_view description = all.substr(0, nul), text = nul == std::string_view::npos ? std::string_view("ab <s>  ▁a") : all.substr(nul + 1);
  constexpr std::string_view kSections[] = {"normalizer", "pre_tokenizer", "post_processor", "decoder"};
  const unsigned kind = data[0] % 7;
  if (kind < 4) {
    component(kSections[kind], description, text);
  } else if (kind == 4) {
    pattern(description, text);
  } else if (kind == 5) {
    facts(all, text.substr(0, 200));
  } else {
    isotope::VocabSource source;
    source.tokenizer_json = description;
    if (!description.empty()) run(source, text);
  }
  return 0;
}
