// isotope explain: asks a running server what shaped a request, and tells it in words.
#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "http_get.h"
#include "output.h"
#include "serve/json_body.h"

namespace isotope::app {
namespace {

using serve::Json;

struct Options {
  std::string name, url = "http://127.0.0.1:8000", api_key;
  bool json = false;
};

std::string ms(const Json& seconds) { return fmt::format("{:.1f} ms", seconds.get<double>() * 1e3); }

std::string reason_of(const Json& d) { return d.contains("reason") ? ": " + d.at("reason").get<std::string>() : std::string(); }

std::string words(const Json& d) {
  const std::string kind = d.at("kind");
  const int64_t tokens = d.at("tokens"), position = d.at("position"), step = d.at("step");
  if (kind == "routed") return fmt::format("routed to rank {} and charged {} tokens", position, tokens) + reason_of(d);
  if (kind == "held") return fmt::format("held back for {} steps", tokens) + reason_of(d);
  if (kind == "admitted") return fmt::format("admitted in step {}; {} of {} tokens found in the cache", step, tokens, position) + reason_of(d);
  if (kind == "awaited") return fmt::format("waited {} steps", tokens) + reason_of(d);
  if (kind == "stored") return fmt::format("step {}: stored the state of the recurrent layers after {} tokens", step, tokens) + reason_of(d);
  if (kind == "chunk") return fmt::format("step {}: computed {} tokens from position {}", step, tokens, position) + reason_of(d);
  if (kind == "preempted") return fmt::format("step {}: preempted, {} computed tokens given up", step, tokens) + reason_of(d);
  if (kind == "first_token") return fmt::format("step {}: first token", step);
  if (kind == "finished") return fmt::format("finished with {} output tokens", tokens) + reason_of(d);
  return kind;
}

void print_record(const Json& r) {
  print("{} (request {}, rank {}): {}\n", r.at("label").get<std::string>(), r.at("id").get<uint64_t>(), r.at("rank").get<int>(), r.at("state").get<std::string>());
  print("  prompt {} tokens, {} of them cached; {} output tokens; {} chunks, {} preemptions; seed {}\n", r.at("prompt_tokens").get<int64_t>(),
             r.at("cached_tokens").get<int64_t>(), r.at("output_tokens").get<int64_t>(), r.at("chunks").get<int>(), r.at("preemptions").get<int>(), r.at("seed").get<uint64_t>());
  if (const Json reason = r.value("cache_reason", Json()); reason.is_object())
    print("  not more of it cached: {} at token {}\n", reason.at("cause").get<std::string>(), reason.at("position").get<int64_t>());
  if (const int64_t again = r.value("replayed_tokens", int64_t{0}); again > 0) print("  {} tokens more were found and computed once more, for the sake of their windows\n", again);
  print("  queue {}, prefill {}, decode {}; first token after {}\n", ms(r.at("queue_s")), ms(r.at("prefill_s")), ms(r.at("decode_s")), ms(r.at("ttft_s")));
  for (const Json& d : r.at("decisions")) {
    const int64_t count = d.value("count", int64_t{1});
    const std::string times = count > 1 ? fmt::format(" ({} times, until {})", count, ms(d.at("last_s"))) : "";
    print("  {:>12}  {}{}\n", ms(d.at("at_s")), words(d), times);
  }
  if (const int64_t dropped = r.at("decisions_dropped"); dropped > 0) print("  {} decisions in the middle are not kept\n", dropped);
}

void print_list(const Json& list) {
  print("{:<44} {:>4} {:>7} {:>7} {:>7} {:>7} {:>10} {:>10}\n", "request", "rank", "state", "prompt", "cached", "output", "queue ms", "ttft ms");
  for (const Json& r : list)
    print("{:<44} {:>4} {:>7} {:>7} {:>7} {:>7} {:>10.1f} {:>10.1f}\n", r.at("label").get<std::string>(), r.at("rank").get<int>(), r.at("state").get<std::string>(),
               r.at("prompt_tokens").get<int64_t>(), r.at("cached_tokens").get<int64_t>(), r.at("output_tokens").get<int64_t>(), r.at("queue_s").get<double>() * 1e3,
               r.at("ttft_s").get<double>() * 1e3);
}

/// What a foreign server answers is taken apart with care.
Result<void> show(const Options& o, const std::string& body) {
  const auto json = serve::parse_json(body);
  try {
    if (!json) throw std::runtime_error("no JSON");
    const Json& list = json->at("requests");
    if (o.name.empty()) return print_list(list), Result<void>{};
    for (const Json& r : list) print_record(r);
    return {};
  } catch (const std::exception& e) {
    return fail(Code::invalid_argument, fmt::format("the answer is not one of isotope's ({})", e.what()), o.url, "name the address of `isotope serve`");
  }
}

Result<void> explain(const Options& o) {
  ISO_TRY(const std::string body, http_get(o.url, o.name.empty() ? "/requests" : "/requests/" + url_escaped(o.name), o.api_key));
  if (!o.json) return show(o, body);
  out(body + "\n");
  return {};
}

}  // namespace

void add_explain(CLI::App& app, Context& context) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("explain", "what shaped a request of a running server: queue, cache, chunks, preemptions");
  sub->add_option("request", o->name, "id of the answer (chatcmpl-…), the client's X-Request-Id or a number; none lists the latest");
  sub->add_option("--url", o->url, "address of the server")->capture_default_str();
  sub->add_option("--api-key", o->api_key, "key that the server asks for; also ISOTOPE_API_KEY");
  sub->add_flag("--json", o->json, "the server's own answer");
  sub->callback([o, &context] {
    context.run = [o, &context] {
      const auto levers = resolve_levers(context);
      if (!levers) return report(levers.error());
      if (o->api_key.empty()) o->api_key = levers->program().api_key.substr(0, levers->program().api_key.find(','));
      const auto done = explain(*o);
      return done ? 0 : report(done.error());
    };
  });
}

}  // namespace isotope::app
