#include "serve/template_choice.h"

#include <string_view>
#include <utility>

#include "base/input_file.h"

namespace isotope::serve {
namespace {

struct BuiltIn {
  const char* name;
  const char* source;
};
// For base models and files without a template. ChatML: https://github.com/openai/openai-python/blob/v0.28.1/chatml.md
constexpr BuiltIn kBuiltIn[] = {
    {"chatml",
     "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"plain",
     "{% for message in messages %}{{ message['role'] | capitalize + ': ' + message['content'] + '\\n\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"},
};

constexpr size_t kMaxTemplateBytes = 1 << 20;

Result<std::string> read_template(const std::string& path, const std::string& names) {
  auto text = base::read_input(path, kMaxTemplateBytes, "--chat-template");
  if (text) return text;
  Error e = std::move(text).error();
  if (e.code == Code::not_found) e.what = "'" + path + "' is neither a readable file nor a known chat template";
  e.code = Code::invalid_argument;
  e.remedy = "give a file, or one of: " + names;
  return tl::unexpected(std::move(e));
}

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// Walks over "item in message.content" without a regular expression: the text may come from a request.
struct Scan {
  std::string_view rest;
  std::string_view word() {
    while (!rest.empty() && (rest[0] == ' ' || rest[0] == '\n' || rest[0] == '\t' || rest[0] == '(')) rest.remove_prefix(1);
    size_t n = 0;
    while (n < rest.size() && is_word(rest[n])) ++n;
    const std::string_view w = rest.substr(0, n);
    rest.remove_prefix(n);
    return w;
  }
  bool eat(std::string_view text) const { return rest.starts_with(text) && (rest.size() == text.size() || !is_word(rest[text.size()])); }
};

}  // namespace

Result<std::string> find_template(const std::string& wanted, const VocabSource& vocab) {
  if (wanted.find("{{") != std::string::npos || wanted.find("{%") != std::string::npos) return wanted;
  std::string names;
  for (const auto& [name, source] : vocab.named_templates) {
    if (name == wanted) return source;
    names += name + ", ";
  }
  for (const BuiltIn& b : kBuiltIn) {
    if (wanted == b.name) return std::string(b.source);
    names += std::string(b.name) + ", ";
  }
  names.resize(names.size() - 2);
  return read_template(wanted, names);
}

std::string model_template(const VocabSource& vocab) {
  if (!vocab.chat_template.empty()) return vocab.chat_template;
  for (const auto& [name, source] : vocab.named_templates) {
    if (name == "default") return source;
  }
  return {};
}

bool takes_content_parts(const std::string& source) {
  for (size_t at = source.find("for "); at != std::string::npos; at = source.find("for ", at + 1)) {
    if (at > 0 && is_word(source[at - 1])) continue;
    Scan scan{std::string_view(source).substr(at + 3)};
    scan.word();
    if (scan.word() != "in") continue;
    const std::string_view subject = scan.word();
    if (subject == "content" || (!subject.empty() && (scan.eat(".content") || scan.eat("['content']") || scan.eat("[\"content\"]")))) return true;
  }
  return false;
}

}  // namespace isotope::serve
