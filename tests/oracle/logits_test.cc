// `isotope logits` as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <map>

#include "golden.h"
#include "support/bytes.h"
#include "tensor/format.h"
#include "weights/checkpoint.h"

namespace isotope::oracle {
namespace {

using testing::HasSubstr;

struct Outcome {
  int status = -1;
  std::string output;  ///< stdout and stderr
};
Outcome isotope(const std::string& arguments) {
  Outcome o;
  std::FILE* p = ::popen((ISOTOPE_BINARY_DIR "/isotope " + arguments + " 2>&1").c_str(), "r");
  if (!p) return o;
  for (int c; (c = std::fgetc(p)) != EOF;) o.output += char(c);
  const int status = ::pclose(p);
  o.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return o;
}

std::string joined(const std::vector<int32_t>& ids) {
  std::string s;
  for (int32_t id : ids) s += (s.empty() ? "" : ",") + std::to_string(id);
  return s;
}

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The result beside a config.json, so that the checkpoint reader opens it.
std::unique_ptr<weights::Checkpoint> result(const test::TempDir& dir) {
  dir.write("config.json", "{}");
  auto c = weights::open_checkpoint(dir.path(), {});
  EXPECT_TRUE(c) << c.error().message();
  return c ? *std::move(c) : nullptr;
}

class Logits : public testing::Test {
 protected:
  const Golden golden_ = read_golden("phi3");
  const Prompt& prompt_ = golden_.prompts[1];
  const std::string model_ = goldens_folder() + "/phi3";
};

TEST_F(Logits, WritesWhatTheManualSays) {
  const test::TempDir dir;
  const Outcome o = isotope("logits " + model_ + " --ids " + joined(prompt_.ids) + " --greedy 24 --hidden --precision exact -o " + dir.file("model.safetensors"));
  ASSERT_EQ(o.status, 0) << o.output;
  const auto c = result(dir);
  ASSERT_TRUE(c);
  const int64_t total = int64_t(prompt_.ids.size()) + 24;
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& t : c->tensors()) shapes[t.name] = {t.shape.begin(), t.shape.begin() + t.rank};
  EXPECT_THAT(shapes, testing::ElementsAre(testing::Pair("greedy", testing::ElementsAre(24)), testing::Pair("hidden.0", testing::ElementsAre(total, 64)),
                                           testing::Pair("hidden.1", testing::ElementsAre(total, 64)), testing::Pair("hidden.2", testing::ElementsAre(total, 64)),
                                           testing::Pair("logits", testing::ElementsAre(total, 256))));
  EXPECT_EQ(c->find("greedy")->dtype, tensor::DType::i32);
  EXPECT_EQ(c->find("logits")->dtype, tensor::DType::f32);
  const auto greedy = c->read(*c->find("greedy"));
  ASSERT_TRUE(greedy);
  const auto* ids = static_cast<const int32_t*>(greedy->view.data);
  EXPECT_EQ(std::vector<int32_t>(ids, ids + 24), prompt_.greedy);
}

TEST_F(Logits, AreTheSameFileForEveryChunkAndThreadCount) {
  const test::TempDir dir;
  std::string want;
  for (const char* how : {"--chunk 1000", "--chunk 1", "--chunk 7 --threads 2", "--threads 3"}) {
    const std::string file = dir.file("x.safetensors");
    const Outcome o = isotope("logits " + model_ + " --ids " + joined(prompt_.ids) + " --hidden " + how + " -o " + file);
    ASSERT_EQ(o.status, 0) << o.output;
    if (want.empty()) want = content(file);
    EXPECT_EQ(content(file), want) << how;
  }
}

TEST_F(Logits, ErrorsNameValueAndRemedy) {
  const test::TempDir dir;
  const std::string out = " -o " + dir.file("x.safetensors");
  const struct {
    std::string arguments;
    int status;
    std::vector<const char*> says;
  } cases[] = {
      {model_ + " --ids 1,256" + out, 2, {"token id 256", "vocabulary of 256"}},
      {model_ + " --ids=-1" + out, 2, {"token id -1", "vocabulary of 256"}},
      {"no-such-model --ids 1" + out, 1, {"no-such-model", "smollm2-135m"}},
      {model_ + " --ids 1 --isa sse9" + out, 2, {"sse9"}},
      {model_ + " --ids 1 -o /no/such/folder/x", 2, {"/no/such/folder/x"}},
  };
  for (const auto& c : cases) {
    const Outcome o = isotope("logits " + c.arguments);
    EXPECT_EQ(o.status, c.status) << o.output;
    for (const char* s : c.says) EXPECT_THAT(o.output, HasSubstr(s));
  }
  for (const char* usage : {"logits", "logits x --ids 99999999999 -o y", "logits x --ids 1,a -o y", "logits x --ids 1 --kv f64 -o y", "logits x --ids 1 --greedy -1 -o y"})
    EXPECT_NE(isotope(usage).status, 0) << usage;
}

}  // namespace
}  // namespace isotope::oracle
