// Every block of cases/*.case, against a server with the fake engine.
#include <gtest/gtest.h>

#include "case_file.h"
#include "test_server.h"

namespace isotope::test {

void PrintTo(const ApiCase& c, std::ostream* out) { *out << c.file << ": " << c.name; }

namespace {

class ApiCases : public testing::TestWithParam<ApiCase> {
 protected:
  static void SetUpTestSuite() { server_ = new TestServer(); }
  static void TearDownTestSuite() { delete server_; }
  static TestServer* server_;
};
TestServer* ApiCases::server_ = nullptr;

TEST_P(ApiCases, AnswersAsTheCaseSays) {
  const ApiCase& c = GetParam();
  const HttpReply reply = HttpClient::fetch(server_->port(), c.method, c.path, c.body, c.headers);
  EXPECT_TRUE(reply.complete);
  EXPECT_EQ(reply.status, c.status) << serve::shortened(reply.body, 500);
  const serve::Json answer = answer_json(reply);
  for (const std::string& check : c.checks) EXPECT_EQ(failed_check(check, answer, reply), "") << check << "\n" << serve::shortened(reply.body, 800);
  if (c.status >= 400) EXPECT_LT(reply.body.size(), 2000u) << "an error must not repeat the request";
  EXPECT_EQ(HttpClient::fetch(server_->port(), "GET", "/health").status, 200);
}

INSTANTIATE_TEST_SUITE_P(Api, ApiCases, testing::ValuesIn(load_cases(ISOTOPE_SOURCE_DIR "/tests/api/cases")), [](const auto& info) {
  std::string name = info.param.file + "_" + info.param.name;
  for (char& ch : name) {
    if (!isalnum(static_cast<unsigned char>(ch))) ch = '_';
  }
  return name + "_" + std::to_string(info.index);
});

}  // namespace
}  // namespace isotope::test
