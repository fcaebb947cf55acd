#include "test_server.h"

#include "base/check.h"

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

}  // namespace isotope::test
