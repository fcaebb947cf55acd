// Any bytes as the body of a request to every endpoint, in process: the real API over a fake engine. Whatever comes, the answer has a status that is no
// failure of the server, is JSON (or events of JSON, or text) in valid UTF-8, and comes.
//   fuzz_endpoints --list                 the endpoints, one a line
//   fuzz_endpoints --endpoint=METHOD:PATH …   all of the input is the body; without it the first byte chooses the endpoint
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "serve/api.h"
#include "support/byte_tokenizer.h"
#include "support/fake_engine.h"
#include "text/unicode.h"

namespace {

using namespace isotope;

constexpr char kTemplate[] =
    "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

void require(bool ok, const char* what, const std::string& seen) {
  if (ok) return;
  std::fprintf(stderr, "fuzz_endpoints: %s: %s\n", what, seen.substr(0, 2000).c_str());
  std::abort();
}

struct Endpoint {
  std::string method, path;
};

class Server {
 public:
  Server() : api_({.served_names = {"m"}, .api_keys = {}, .version = "0", .config = [] { return serve::Json::object(); }}) {
    serve::FrontendOptions options{.chat_template = kTemplate, .tokenize_cache_bytes = 1 << 20, .tokenize_cache_from = 200, .tool_parser = "hermes", .reasoning_parser = "qwen3"};
    options.grammar.compile_ms = 2000;
    auto front = serve::Frontend::create(engine_, std::make_unique<test::ByteTokenizer>(), std::move(options));
    require(front.has_value(), "no front end", front ? "" : front.error().message());
    front_ = *std::move(front);
    api_.ready(*front_);
    list();
  }
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }

  void call(const Endpoint& to, std::string body) {
    serve::HttpCall http{.method = to.method, .path = to.path, .query = {}, .headers = {{"content-type", "application/json"}}, .body = std::move(body)};
    if (http.path.ends_with("/*")) {  // what stands below comes from the input, too
      http.path.pop_back();
      http.path += http.body.substr(0, 40);
    }
    serve::Reply reply = api_.handle(std::move(http));
    if (auto* response = std::get_if<serve::HttpResponse>(&reply)) return check(*response);
    finish(*std::get<std::unique_ptr<serve::Pending>>(reply));
  }

 private:
  /// What the server's own document lists, so that a new path is covered when it appears there, and the paths that are reserved.
  void list() {
    serve::Reply reply = api_.handle({.method = "GET", .path = "/openapi.json", .query = {}, .headers = {}, .body = {}});
    const auto document = serve::parse_json(std::get<serve::HttpResponse>(reply).body);
    require(document.has_value(), "openapi.json is no JSON", "");
    for (const auto& [path, methods] : (*document)["paths"].items())
      for (const auto& [method, _] : methods.items()) {
        Endpoint e{method, path};
        for (char& c : e.method) c = char(std::toupper(c));
        if (const size_t brace = e.path.find('{'); brace != std::string::npos) e.path = e.path.substr(0, brace) + "*";
        endpoints_.push_back(std::move(e));
      }
    for (const char* path : {"/", "/page/*", "/v1/load_lora_adapter", "/debug/cache_stats", "/config", "/requests"}) endpoints_.push_back({"GET", path});
    require(endpoints_.size() > 20, "openapi.json lists too little", "");
  }

  void check(const serve::HttpResponse& r) const {
    const bool damaged = r.body.find("the model's result is not a finite number") != std::string::npos;  // the fake engine plays that when it reads token 13
    const bool ours = r.status < 500 || r.status == 501 || r.status == 503 || damaged;
    require(r.status >= 200 && ours, "status", std::to_string(r.status) + " " + r.body);
    require(r.content_type.starts_with("image/") || text::valid_utf8(r.body), "body is not UTF-8", r.body);
    if (r.content_type.starts_with("application/json") && !r.body.empty()) require(serve::parse_json(r.body).has_value(), "body is no JSON", r.body);
    if (r.status >= 400) require(!r.body.empty() && r.body.size() < 8192, "an error without words, or with too many", r.body);
  }

  void finish(serve::Pending& pending) {
    std::mutex mutex;
    std::condition_variable changed;
    bool due = true;
    pending.set_wake([&] {
      const std::lock_guard lock(mutex);
      due = true;
      changed.notify_one();
    });
    std::string events;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(8);
    while (true) {
      const auto state = pending.pump(events);
      if (state == serve::Pending::State::finished) break;
      require(state != serve::Pending::State::broken, "the answer broke off", events);
      std::unique_lock lock(mutex);
      require(changed.wait_until(lock, end, [&] { return due; }), "no answer within 8 seconds", events);
      due = false;
    }
    if (!pending.streaming() || events.empty()) return check(pending.response());
    check_events(events);
  }

  static void check_events(const std::string& all) {
    require(text::valid_utf8(all), "events are not UTF-8", all);
    for (size_t at = 0, end; at < all.size(); at = end + 1) {
      end = std::min(all.find('\n', at), all.size());
      const std::string line = all.substr(at, end - at);
      if (!line.starts_with("data: ") || line == "data: [DONE]") continue;
      require(serve::parse_json(line.substr(6)).has_value(), "an event is no JSON", line);
    }
  }

  test::FakeEngine engine_;
  std::unique_ptr<serve::Frontend> front_;
  serve::ApiHandler api_;
  std::vector<Endpoint> endpoints_;
};

Server& server() {
  static auto* made = new Server();
  return *made;
}

const Endpoint* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const std::string word = (*argv)[i];
    if (word == "--list") {
      for (const Endpoint& e : server().endpoints()) std::printf("%s:%s\n", e.method.c_str(), e.path.c_str());
      std::exit(0);
    }
    if (!word.starts_with("--endpoint=")) continue;
    for (const Endpoint& e : server().endpoints())
      if (word.substr(11) == e.method + ":" + e.path) chosen = &e;
    require(chosen != nullptr, "no such endpoint", word);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (chosen) return server().call(*chosen, std::string(reinterpret_cast<const char*>(data), size)), 0;
  if (size == 0) return 0;
  const auto& all = server().endpoints();
  server().call(all[data[0] % all.size()], std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
