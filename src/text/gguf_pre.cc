#include "text/gguf_pre.h"

#include "text/fast_split.h"

namespace isotope::text {
namespace {

using View = std::string_view;
constexpr View kDeepseekWords =
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)";
constexpr View kDeepseekPunctuation = R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)";
constexpr View kDeepseekCjk = "[一-龥ࠀ-一가-퟿]+";

constexpr View kGpt2Steps[] = {patterns::kGpt2};
constexpr View kDigitsGpt2[] = {kStepDigits, patterns::kGpt2};
constexpr View kLlama3Steps[] = {patterns::kLlama3};
constexpr View kQwen2Steps[] = {patterns::kQwen2};
constexpr View kQwen35Steps[] = {patterns::kQwen35};
constexpr View kO200kSteps[] = {patterns::kO200k};
constexpr View kTekkenSteps[] = {patterns::kTekken};
constexpr View kKimiSteps[] = {patterns::kKimi};
constexpr View kFalconSteps[] = {R"([\p{P}$+<=>^`|~]+)", patterns::kGpt2, kStepBytes, kStepDigitRuns, "[0-9][0-9][0-9]"};
constexpr View kDefaultSteps[] = {R"([\p{P}$+<=>^|~]+)", patterns::kGpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"};
constexpr View kDeepseek3[] = {
    R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr View kDeepseekLlm[] = {R"([\r\n])", kDeepseekWords, kDeepseekPunctuation, R"(\s+$)", kDeepseekCjk, kStepDigitRuns};
constexpr View kDeepseekCoder[] = {R"([\r\n])", kDeepseekWords, kDeepseekPunctuation, R"(\s+$)", kDeepseekCjk, kStepDigits};
constexpr View kBloom[] = {" ?[^(\\s|[.,!?…。，、।۔،])]+"};
constexpr View kViking[] = {" ?[^(\\s|[.,!?…。，、।۔،])]+", kStepDigits};
constexpr View kBailing[] = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr View kSeedCoder[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr View kSuperBpe[] = {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"};
constexpr View kJais2[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"};
constexpr View kTinyAya[] = {R"(\d{1,3}(?=(?:\d{3})*\b))", patterns::kO200k};
constexpr View kExaoneMoe[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"};

constexpr GgufPre kRows[] = {
    {"default", kDefaultSteps},
    {"gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum jina-v1-en jina-v2-code roberta-bpe exaone4 jais trillion granite-docling", kGpt2Steps},
    {"mpt olmo dolma12b modern-bert", kGpt2Steps, false, false, true},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", kDigitsGpt2},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", kLlama3Steps, true, true},
    {"dbrx smaug-bpe smaug chatglm-bpe", kLlama3Steps},
    {"glm4 glm5", kLlama3Steps, true},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez", kQwen2Steps, false, false, true},
    {"stablelm2 hunyuan solar-open grok-2", kQwen2Steps},
    {"qwen35", kQwen35Steps, false, false, true},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", kO200kSteps},
    {"granite-embed-multi-97m", kO200kSteps, true},
    {"tiny_aya cohere2moe", kTinyAya},
    {"tekken", kTekkenSteps, true, true},
    {"kimi-k2", kKimiSteps, true},
    {"falcon", kFalconSteps},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", kDeepseek3},
    {"deepseek-llm", kDeepseekLlm},
    {"deepseek-coder", kDeepseekCoder},
    {"bloom poro-chat gpt3-finnish", kBloom},
    {"viking", kViking},
    {"bailingmoe bailingmoe2 llada-moe", kBailing},
    {"seed-coder", kSeedCoder},
    {"superbpe", kSuperBpe},
    {"jais-2", kJais2},
    {"exaone-moe", kExaoneMoe},
};

bool lists(View names, View name) {
  while (!names.empty()) {
    const size_t space = names.find(' ');
    if (names.substr(0, space) == name) return true;
    names.remove_prefix(space == View::npos ? names.size() : space + 1);
  }
  return false;
}

}  // namespace

const GgufPre* find_gguf_pre(std::string_view name) {
  for (const GgufPre& row : kRows)
    if (lists(row.names, name)) return &row;
  return nullptr;
}

std::string gguf_pre_names() {
  std::string out;
  for (const GgufPre& row : kRows) out.append(out.empty() ? "" : " ").append(row.names);
  return out;
}

}  // namespace isotope::text
