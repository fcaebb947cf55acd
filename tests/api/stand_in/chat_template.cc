// Stands in until the text layer has its chat templates.
#include "text/chat_template.h"

namespace isotope::text {
struct ChatTemplate::Impl { std::string source; };
ChatTemplate::ChatTemplate(std::unique_ptr<Impl> i) : impl_(std::move(i)) {}
ChatTemplate::~ChatTemplate() = default;
Result<std::unique_ptr<ChatTemplate>> ChatTemplate::parse(std::string s) {
  if (s.find("{% bad") != std::string::npos) return fail(Code::invalid_argument, "unknown tag at 1:4");
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::make_unique<Impl>(Impl{s})));
}
Result<std::string> ChatTemplate::render(const Input& in) const {
  std::string out;
  auto p = render_pieces(in);
  if (!p) return tl::unexpected(p.error());
  for (auto& x : *p) out += x.text;
  return out;
}
Result<std::vector<Tokenizer::Piece>> ChatTemplate::render_pieces(const Input& in) const {
  std::vector<Tokenizer::Piece> out;
  out.push_back({in.bos_token, true});
  for (auto& m : in.messages) {
    out.push_back({"<|im_start|>", true});
    out.push_back({m["role"].get<std::string>(), false});
    out.push_back({"\n", true});
    if (!m["content"].is_string()) return fail(Code::invalid_argument, "content is no string");
    out.push_back({m["content"].get<std::string>(), false});
    out.push_back({"<|im_end|>\n", true});
  }
  if (in.add_generation_prompt) out.push_back({"<|im_start|>assistant\n", true});
  return out;
}
}
