#include "test_server.h"

#include <cstdlib>
#include <filesystem>

#include "base/check.h"
#include "levers/levers.h"

namespace isotope::test {

TestServer::TestServer(TestServerOptions o) {
  engine_ = std::make_unique<FakeEngine>(o.engine);
  if (!o.bos) engine_->vocab().bos_id = -1;
  auto front = serve::Frontend::create(*engine_, std::make_unique<ByteTokenizer>(o.bos), std::move(o.front));
  ISO_CHECK(front.has_value());
  front_ = *std::move(front);
  if (o.api.version.empty()) o.api.version = "test";
  api_ = std::make_unique<serve::ApiHandler>(std::move(o.api));
  if (o.ready) make_ready();
  o.http.port = 0;
  auto http = serve::HttpServer::listen(std::move(o.http), *api_);
  ISO_CHECK(http.has_value());
  http_ = *std::move(http);
}

std::unique_ptr<ModelServer> ModelServer::open(const std::string& name, EngineOptions options) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  options.model = (cache != nullptr ? std::string(cache) : std::string(home != nullptr ? home : "") + "/.cache") + "/isotope/models/" + name + ".gguf";
  if (!std::filesystem::exists(options.model)) return nullptr;
  auto s = std::make_unique<ModelServer>();
  auto engine = Engine::open(options, levers::Levers::defaults());
  ISO_CHECK(engine.has_value());
  s->engine_ = *std::move(engine);
  auto tokenizer = text::Tokenizer::create(s->engine_->vocab());
  ISO_CHECK(tokenizer.has_value());
  auto front = serve::Frontend::create(*s->engine_, *std::move(tokenizer), {});
  ISO_CHECK(front.has_value());
  s->front_ = *std::move(front);
  s->api_ = std::make_unique<serve::ApiHandler>(serve::ApiOptions{.version = "test"});
  s->api_->ready(*s->front_);
  auto http = serve::HttpServer::listen({.port = 0}, *s->api_);
  ISO_CHECK(http.has_value());
  s->http_ = *std::move(http);
  return s;
}

}  // namespace isotope::test
