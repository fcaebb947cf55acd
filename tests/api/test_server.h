// A whole server on a free port: fake engine, byte tokenizer, real front end, real API, real sockets.
#pragma once

#include <memory>

#include "serve/api.h"
#include "serve/frontend.h"
#include "serve/http_server.h"
#include "support/byte_tokenizer.h"
#include "support/fake_engine.h"

namespace isotope::test {

struct TestServerOptions {
  FakeOptions engine = {};
  serve::HttpOptions http = {};
  serve::ApiOptions api = {};
  serve::FrontendOptions front = {};
  bool bos = true, ready = true;
};

/// A published model from the user's cache behind the same server; null when it is not there.
class ModelServer {
 public:
  static std::unique_ptr<ModelServer> open(const std::string& name, EngineOptions options = {.max_model_len = 512, .kv_bytes = 64 << 20});
  int port() const { return http_->port(); }
  Engine& engine() { return *engine_; }
  serve::Frontend& front() { return *front_; }

 private:
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<serve::Frontend> front_;
  std::unique_ptr<serve::ApiHandler> api_;
  std::unique_ptr<serve::HttpServer> http_;
};

class TestServer {
 public:
  explicit TestServer(TestServerOptions o = {});
  int port() const { return http_->port(); }
  void make_ready() { api_->ready(*front_); }
  FakeEngine& engine() { return *engine_; }
  serve::Frontend& front() { return *front_; }
  serve::HttpServer& http() { return *http_; }
  serve::ApiHandler& api() { return *api_; }

 private:
  std::unique_ptr<FakeEngine> engine_;
  std::unique_ptr<serve::Frontend> front_;
  std::unique_ptr<serve::ApiHandler> api_;
  std::unique_ptr<serve::HttpServer> http_;  // stops first
};

}  // namespace isotope::test
