// A tiny model of the oracle through the whole engine: what the tests of model families share.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collector.h"
#include "levers/levers.h"
#include "text/token_texts.h"

namespace isotope::engine::test {

inline std::string golden_folder(const std::string& family) { return ISOTOPE_SOURCE_DIR "/tests/oracle/goldens/" + family; }

using Answers = std::map<uint64_t, Answer>;
using Ways = std::vector<std::pair<const char*, EngineOptions>>;

/// The parameter is the family's folder.
class FamilyTest : public testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<Engine> open(EngineOptions o = {}, const std::map<std::string, std::string>& settings = {}) {
    o.model = golden_folder(GetParam());
    o.token_texts = text::read_token_texts;
    o.kv_bytes = 64 << 20;
    if (!o.threads) o.threads = 2;
    o.max_model_len = 512;
    auto e = Engine::open(o, *levers::Levers::resolve({.environment = settings}));
    EXPECT_TRUE(e) << (e ? "" : e.error().message());
    return e ? std::move(*e) : nullptr;
  }

  /// Prompts of one seed are prefixes of each other.
  static std::vector<int32_t> prompt(int64_t n, uint32_t seed) {
    std::vector<int32_t> v(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i) v[i] = int32_t(3 + (i * 7919 + seed * 104729 + i * i * 31) % 250);
    return v;
  }
  static Request request(uint64_t id, std::vector<int32_t> prompt) {
    Request r;
    r.id = id;
    r.prompt = std::move(prompt);
    r.sampling = {.temperature = id % 2 ? 0.8f : 0.0f, .seed = id, .max_tokens = 12, .ignore_eos = true, .logprobs = 2};
    return r;
  }
  /// The last one is `longest` tokens long.
  static std::vector<Request> eight(int64_t longest = 200) {
    const int64_t lengths[] = {1, 2, 15, 17, 33, 64, 130, longest};
    std::vector<Request> v;
    for (uint64_t i = 0; i < 8; ++i) v.push_back(request(i, prompt(lengths[i], uint32_t(i % 3))));
    v[4].sampling.prompt_logprobs = 1;
    return v;
  }
  /// Each request in an engine of its own, which nobody has used before.
  static Answers alone(std::vector<Request> requests, const EngineOptions& o = {}) {
    Answers out;
    for (Request& r : requests) {
      const auto e = open(o);
      if (!e) return out;
      const uint64_t id = r.id;
      out[id] = run_one(*e, std::move(r));
      EXPECT_EQ(out[id].tokens.size(), 12u);
    }
    return out;
  }

  static void expect_all(const Answers& got, const Answers& want, const std::string& where) {
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [id, a] : want) expect_same(got.at(id), a, where + ", request " + std::to_string(id));
  }
  static void expect_all_blocks_back(Engine& e) {
    const EngineStats s = e.stats();
    EXPECT_EQ(s.blocks_free + s.blocks_evictable, s.blocks_total);
    EXPECT_NE(e.metrics().find("isotope:kv_integrity_errors_total 0.0"), std::string::npos);
  }
  /// The requests together, twice, in an engine for each of the ways; `after` sees the engine then.
  template <class F>
  static void expect_every_way(const Ways& ways, int64_t longest, const Answers& want, F after) {
    for (const auto& [name, options] : ways) {
      SCOPED_TRACE(name);
      const auto e = open(options);
      ASSERT_TRUE(e);
      expect_all(run(*e, eight(longest)), want, name);
      expect_all(run(*e, eight(longest)), want, std::string(name) + ", again");
      EXPECT_EQ(e->stats().preemptions > 0, options.preempt_every > 0);
      expect_all_blocks_back(*e);
      after(*e, options);
    }
  }
  static void expect_every_way(const Ways& ways, int64_t longest, const Answers& want) {
    expect_every_way(ways, longest, want, [](Engine&, const EngineOptions&) {});
  }
};

}  // namespace isotope::engine::test
