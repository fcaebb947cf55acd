#include "serve/tools/registry.h"

#include <span>

namespace isotope::serve {
namespace {

constexpr ToolRow kTools[] = {
    {.name = "deepseek_v3", .read = read_deepseek_v3, .keep_special = true},
    {.name = "deepseek_v31", .read = read_deepseek_v3, .keep_special = true},
    {.name = "deepseek_v32", .read = read_deepseek_v32, .keep_special = true},
    {.name = "functiongemma", .read = read_functiongemma, .keep_special = true},
    {.name = "glm45", .read = read_glm45, .keep_special = true},
    {.name = "glm47", .read = read_glm45, .keep_special = true},
    {.name = "hermes", .read = read_hermes},
    {.name = "kimi_k2", .read = read_kimi_k2, .keep_special = true},
    {.name = "llama3_json", .read = read_llama3_json, .keep_special = true},
    {.name = "llama4_json", .read = read_llama3_json, .keep_special = true},
    {.name = "llama4_pythonic", .read = read_pythonic, .keep_special = true},
    {.name = "minimax_m2", .read = read_minimax_m2, .keep_special = true},
    {.name = "mistral", .read = read_mistral, .keep_special = true, .id_length = 9},
    {.name = "openai", .read = read_harmony, .keep_special = true, .whole = true},
    {.name = "pythonic", .read = read_pythonic, .keep_special = true},
    {.name = "qwen3_coder", .read = read_qwen3_coder},
    {.name = "qwen3_xml", .read = read_qwen3_coder},
};

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";

constexpr ReasoningRow kReasoning[] = {
    {.name = "deepseek_r1", .open = kThink, .close = kThinkEnd, .inside = true},
    {.name = "deepseek_v3", .open = kThink, .close = kThinkEnd},
    {.name = "glm45", .open = kThink, .close = kThinkEnd},
    {.name = "glm47", .open = kThink, .close = kThinkEnd},
    {.name = "kimi_k2", .open = kThink, .close = kThinkEnd},
    {.name = "minimax_m2", .open = kThink, .close = kThinkEnd, .inside = true},
    {.name = "mistral", .open = "[THINK]", .close = "[/THINK]", .keep_special = true},
    {.name = "nemotron_v3", .open = kThink, .close = kThinkEnd, .inside = true},
    {.name = "olmo3", .open = kThink, .close = kThinkEnd, .inside = true},
    {.name = "openai_gptoss", .keep_special = true, .whole = read_harmony},
    {.name = "qwen3", .open = kThink, .close = kThinkEnd},
    {.name = "seed_oss", .open = "<seed:think>", .close = "</seed:think>", .inside = true},
    {.name = "step3", .open = kThink, .close = kThinkEnd, .inside = true},
};

// What a template must show, the most telling first.
struct Hint {
  std::string_view text, also, name;
};
constexpr Hint kToolHints[] = {
    {"<｜DSML｜", "", "deepseek_v32"},
    {"<｜tool▁sep｜>", "", "deepseek_v3"},
    {"<minimax:tool_call>", "", "minimax_m2"},
    {"<|tool_calls_section_begin|>", "", "kimi_k2"},
    {"<arg_key>", "", "glm45"},
    {"<function=", "", "qwen3_coder"},
    {"[TOOL_CALLS]", "", "mistral"},
    {"<|channel|>", "<|message|>", "openai"},
    {"<start_function_call>", "", "functiongemma"},
    {"<tool_call>", "", "hermes"},
    {"<|python_start|>", "", "llama4_pythonic"},
    {"<|python_tag|>", "", "llama3_json"},
    {"\"parameters\": dictionary of argument name", "", "llama3_json"},
    {"[func_name1(", "", "pythonic"},
};
constexpr Hint kReasoningHints[] = {
    {"[THINK]", "", "mistral"},
    {"<|channel|>", "<|message|>", "openai_gptoss"},
    {"<seed:think>", "", "seed_oss"},
    {"<minimax:tool_call>", "</think>", "minimax_m2"},
    {"<｜Assistant｜>", "</think>", "deepseek_r1"},
    {"</think>", "", "qwen3"},
};

template <class Row>
std::string names(std::span<const Row> rows) {
  std::string out;
  for (const Row& r : rows) out += (out.empty() ? "" : ", ") + std::string(r.name);
  return out;
}

template <class Row>
Result<const Row*> find(std::span<const Row> rows, std::span<const Hint> hints, std::string_view name, std::string_view chat_template, const char* flag) {
  if (name == "none") return nullptr;
  const bool automatic = name.empty() || name == "auto";
  for (const Hint& h : hints) {
    if (!automatic || chat_template.find(h.text) == std::string_view::npos || chat_template.find(h.also) == std::string_view::npos) continue;
    name = h.name;
    break;
  }
  for (const Row& r : rows) {
    if (name == r.name) return &r;
  }
  if (automatic) return nullptr;
  return fail(Code::invalid_argument, "there is no parser '" + std::string(name) + "'", flag, "use one of: auto, none, " + names(rows));
}

}  // namespace

Result<const ToolRow*> find_tool_parser(const std::string& name, std::string_view chat_template) {
  return find<ToolRow>(kTools, kToolHints, name, chat_template, "--tool-call-parser");
}

Result<const ReasoningRow*> find_reasoning_parser(const std::string& name, std::string_view chat_template) {
  return find<ReasoningRow>(kReasoning, kReasoningHints, name, chat_template, "--reasoning-parser");
}

std::string tool_parser_names() { return names<ToolRow>(kTools); }
std::string reasoning_parser_names() { return names<ReasoningRow>(kReasoning); }

}  // namespace isotope::serve
