#include "text/chat_template.h"

#include <algorithm>
#include <chrono>

#include "text/jinja_lexer.h"
#include "text/jinja_unicode.h"
#include "text/jinja_vm.h"

namespace isotope::text {

using nlohmann::ordered_json;
namespace jj = jinja;

namespace {

constexpr size_t kMaxSource = size_t{1} << 20;

// Row and column (code points, from 1) of a byte of the source.
std::string place(const std::string& source, uint32_t pos) {
  const std::string_view before = std::string_view(source).substr(0, std::min<size_t>(pos, source.size()));
  const size_t line = before.rfind('\n') + 1;
  return "row " + std::to_string(std::count(before.begin(), before.end(), '\n') + 1) + ", column " +
         std::to_string(jj::count_points(before.substr(line)) + 1);
}

// JSON as template values. `content`: its text came from outside and keeps that mark.
jj::Value import_json(jj::Budget& b, const ordered_json& j, bool content = true, uint32_t depth = 0) {
  if (depth > b.max_nesting)
    jj::raise(jj::Fault::limit, "the input is nested more than " + std::to_string(b.max_nesting) + " deep");
  switch (j.type()) {
    case ordered_json::value_t::string: return jj::make_string(b, jj::sanitize(j.get_ref<const std::string&>()), content);
    case ordered_json::value_t::boolean: return jj::Value::boolean(j.get<bool>());
    case ordered_json::value_t::number_integer: return jj::Value::integer(j.get<int64_t>());
    case ordered_json::value_t::number_unsigned: {
      const auto u = j.get<uint64_t>();
      return u <= INT64_MAX ? jj::Value::integer(static_cast<int64_t>(u)) : jj::make_big(std::to_string(u));
    }
    case ordered_json::value_t::number_float: return jj::Value::real(j.get<double>());
    case ordered_json::value_t::array: {
      std::vector<jj::Value> items;
      for (const ordered_json& x : j) items.push_back(import_json(b, x, content, depth + 1));
      return jj::make_list(b, std::move(items));
    }
    case ordered_json::value_t::object: {
      auto d = std::make_shared<jj::Dict>();
      for (const auto& [k, v] : j.items()) d->set(b, jj::make_string(b, jj::sanitize(k), content), import_json(b, v, content, depth + 1));
      return jj::make_dict(b, std::move(d));
    }
    default: return jj::Value::none();
  }
}

// Templates put roles into control tokens ('<|' + message.role + '|>'). The usual names count as template text; any other stays
// content.
void trust_roles(const jj::Value& messages) {
  static constexpr std::string_view kRoles[] = {"system",   "user",  "assistant", "tool",        "developer",
                                                "function", "model", "ipython",   "observation", "tool_results"};
  if (!messages.is(jj::Kind::list)) return;
  for (const jj::Value& m : messages.as<jj::Seq>().items) {
    const jj::Value* role = m.is(jj::Kind::dict) ? m.as<jj::Dict>().find("role") : nullptr;
    if (role && role->is(jj::Kind::string) &&
        std::find(std::begin(kRoles), std::end(kRoles), jj::text(*role)) != std::end(kRoles))
      role->as<jj::Str>().content.clear();
  }
}

jj::Context make_context(jj::Budget& b, const ChatTemplate::Input& in) {
  jj::Context c;
  auto& v = c.variables;
  v["messages"] = import_json(b, in.messages);
  trust_roles(v["messages"]);
  v["tools"] = import_json(b, in.tools);
  v["documents"] = jj::Value::none();
  v["add_generation_prompt"] = jj::Value::boolean(in.add_generation_prompt);
  v["bos_token"] = jj::make_string(b, jj::sanitize(in.bos_token));
  v["eos_token"] = jj::make_string(b, jj::sanitize(in.eos_token));
  if (in.special_tokens.is_object())
    for (const auto& [name, token] : in.special_tokens.items()) v[name] = import_json(b, token, false);
  if (in.extra.is_object())
    for (const auto& [name, value] : in.extra.items()) v[name] = import_json(b, value);
  c.now_is_utc = in.now.has_value();
  c.now = in.now.value_or(
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count());
  return c;
}

}  // namespace

struct ChatTemplate::Impl {
  jj::Program program;

  // What a failed render tells the client. A template's own complaint is passed on as it is.
  tl::unexpected<Error> failed(const jj::Failure& f, uint32_t pos) const {
    if (f.fault == jj::Fault::raised) return fail(Code::invalid_argument, f.what.empty() ? "the chat template refuses these messages and does not say why" : f.what);
    const std::string source = "chat template, " + place(program.source, f.pos != jj::kNoPos ? f.pos : pos);
    if (f.fault == jj::Fault::limit)
      return fail(Code::invalid_argument, f.what, source, "simplify the chat template or shorten the messages");
    if (f.fault == jj::Fault::unsupported) return fail(Code::unsupported, f.what, source, "use another chat template");
    return fail(Code::invalid_argument, f.what, source, "send messages of the form this model's chat template expects");
  }

  // `use` gets the rendered string while everything it may refer to is alive.
  template <class T, class Use>
  Result<T> render(const Input& in, Use use) const {
    jj::Budget budget;
    uint32_t pos = 0;
    try {
      jj::Vm vm(program, budget, make_context(budget, in));
      try {
        return use(jj::str(vm.run()));
      } catch (...) {
        pos = vm.pos();
        throw;
      }
    } catch (const jj::Failure& f) {
      return failed(f, pos);
    } catch (const std::bad_alloc&) {
      return fail(Code::resource_exhausted, "out of memory while the chat template was rendered", "chat template",
                  "shorten the messages");
    }
  }
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::parse(std::string source) {
  if (source.size() > kMaxSource)
    return fail(Code::unsupported, "the chat template has " + std::to_string(source.size()) + " bytes", "chat template",
                "use one of at most 1 MiB");
  std::string clean = jj::sanitize(source);
  auto impl = std::make_unique<Impl>();
  try {
    impl->program = jj::compile(clean);
  } catch (const jj::Failure& f) {
    const std::string normal = jj::normalize_newlines(clean);
    const Code code = f.fault == jj::Fault::unsupported ? Code::unsupported : Code::invalid_argument;
    return fail(code, f.what, "chat template, " + place(normal, f.pos),
                "repair the template, or give another one with --chat-template");
  }
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(impl)));
}

Result<std::string> ChatTemplate::render(const Input& in) const {
  return impl_->render<std::string>(in, [](const jj::Str& s) { return s.text; });
}

Result<std::vector<Tokenizer::Piece>> ChatTemplate::render_pieces(const Input& in) const {
  return impl_->render<std::vector<Tokenizer::Piece>>(in, [](const jj::Str& s) {
    std::vector<Tokenizer::Piece> out;
    size_t at = 0;
    const auto put = [&](size_t to, bool special) {
      if (to > at) out.push_back({s.text.substr(at, to - at), special});
      at = to;
    };
    for (const jj::Span& c : s.content) put(c.begin, true), put(c.end, false);
    put(s.text.size(), true);
    return out;
  });
}

}  // namespace isotope::text
