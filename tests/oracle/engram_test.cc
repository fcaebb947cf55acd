// N-gram tables of DeepSeek V4.1: tokens, hashes and rows against a plain reference (tools/make_v41.py), and the same bits however rows are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "golden.h"
#include "models/dummy.h"
#include "models/engram_hash.h"
#include "models/engram_vocab.h"
#include "support/bytes.h"
#include "text/token_texts.h"
#include "weights/safetensors_writer.h"

namespace isotope::oracle {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Engram : public testing::Test {
 protected:
  const std::string folder_ = goldens_folder() + "/deepseek_v41";
  const json want_ = json::parse(std::ifstream(folder_ + "/engram.json"));
  std::unique_ptr<weights::Checkpoint> files() const {
    auto c = weights::open_checkpoint(folder_, {});
    EXPECT_TRUE(c) << c.error().message();
    return *std::move(c);
  }
  models::EngramConfig config() const {
    const auto f = files();
    auto c = models::parse_config(*f, {}, 256);
    EXPECT_TRUE(c) << c.error().message();
    EXPECT_TRUE(models::resolve_engram(c->engram, c->vocab, f->vocab(), text::read_token_texts, {.cache_dir = ""}));
    return c->engram;
  }
  /// Logits of a prompt in pieces of `chunk`.
  std::vector<float> logits(const Loaded& l, std::span<const int32_t> ids, size_t chunk, KvType kv = KvType::f32) const {
    auto direct = *models::Direct::create(*l.model, *l.ops, {.max_len = int64_t(ids.size()), .kv = kv});
    std::vector<float> out;
    for (size_t at = 0; at < ids.size(); at += chunk) {
      const models::Chunk c{.tokens = ids.subspan(at, std::min(chunk, ids.size() - at)), .all_logits = true};
      const auto t = direct.step({&c, 1});
      EXPECT_TRUE(t) << t.error().message();
      for (int64_t r = 0; t && r < t->rows; ++r) out.insert(out.end(), t->row(r), t->row(r) + t->cols);
    }
    return out;
  }
};

TEST_F(Engram, TokensAreWhatTheReferenceMakesOfThem) {
  const auto texts = *text::read_token_texts(files()->vocab());
  ASSERT_EQ(size_t(texts->size()), want_["keys"].size());
  for (int32_t i = 0; i < texts->size(); ++i) EXPECT_EQ(texts->key(i), want_["keys"][size_t(i)].get<std::string>()) << i;
  const models::CompressedVocab v = models::compress_vocab(*texts);
  EXPECT_EQ(v.map, want_["map"].get<std::vector<int32_t>>());
  EXPECT_EQ(v.size, want_["size"]);
}

TEST_F(Engram, HashesAreThoseOfTheReference) {
  const models::EngramConfig c = config();
  const auto h = models::EngramHash::make(c);
  ASSERT_TRUE(h) << h.error().message();
  const auto ids = want_["ids"].get<std::vector<int32_t>>();
  for (size_t t = 0; t < c.layers.size(); ++t) {
    const json& table = want_["tables"][t];
    EXPECT_THAT(h->primes(int(t)), testing::ElementsAreArray(table["primes"].get<std::vector<int64_t>>()));
    std::vector<std::string> multipliers;
    for (int64_t m : h->multipliers(int(t))) multipliers.push_back(std::to_string(m));
    EXPECT_EQ(multipliers, table["multipliers"].get<std::vector<std::string>>());
    for (size_t p = 0; p < ids.size(); ++p) {
      std::vector<int32_t> last(size_t(c.longest), -1);
      for (size_t i = 0; i < last.size() && i <= p; ++i) last[i] = h->compressed(ids[p - i]);
      std::vector<int64_t> rows(size_t(c.columns()));
      h->rows(int(t), last, rows);
      EXPECT_EQ(rows, table["rows"][p].get<std::vector<int64_t>>()) << "table " << t << ", position " << p;
    }
  }
}

TEST_F(Engram, TheSameBitsHoweverRowsAreRead) {
  const Prompt p = read_golden("deepseek_v41").prompts[2];
  std::vector<float> want;
  for (bool in_place : {true, false})
    for (int threads : {1, 3})
      for (size_t chunk : {size_t{1}, size_t{7}, size_t{64}, size_t{1000}}) {
        const auto l = load(folder_, 256, {.threads = threads, .pin = false}, {.in_place = in_place, .cache_dir = ""});
        ASSERT_TRUE(l) << l.error().message();
        const auto got = logits(*l, p.ids, chunk, KvType::bf16);
        if (want.empty()) want = got;
        ASSERT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0) << in_place << " " << threads << " " << chunk;
        const auto stats = l->model->engram_stats();
        ASSERT_TRUE(stats);
        EXPECT_EQ(stats->path, in_place ? "in_place" : "staged");
        EXPECT_EQ(stats->rows, 2 * 6 * int64_t(p.ids.size()));
        EXPECT_EQ(stats->bytes, stats->rows * (64 + 2));
      }
}

/// A file that is cut while the model runs makes the step an error, not the process.
TEST_F(Engram, ACutTableIsAnError) {
  const test::TempDir dir;
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) std::filesystem::copy(folder_ + "/" + name, dir.file(name));
  const auto l = load(dir.path(), 64, {.threads = 2, .pin = false});
  ASSERT_TRUE(l) << l.error().message();
  auto direct = *models::Direct::create(*l->model, *l->ops, {.max_len = 40});
  const std::vector<int32_t> ids(20, 7);
  const models::Chunk chunk{.tokens = ids};
  ASSERT_TRUE(direct.step({&chunk, 1}));
  std::filesystem::resize_file(dir.file("model.safetensors"), 0);
  const auto t = direct.step({&chunk, 1});
  ASSERT_FALSE(t);
  EXPECT_THAT(t.error().message(), HasSubstr("was cut or written to"));
}

/// config.json alone is enough for weights out of nothing; the tables are zeros that take no memory.
TEST_F(Engram, ADummyNeedsNoFiles) {
  for (bool tables_larger_than_memory : {false, true}) {
    json config = json::parse(std::ifstream(folder_ + "/config.json"));
    if (tables_larger_than_memory) {  // those of the released model
      json& text = config["text_config"];
      text["engram_n_heads"] = 8, text["engram_head_dim"] = 256, text["engram_vocab_size"] = 16'000'000;
      text["engram_num_embeddings"] = {384'006'168, 384'016'682};
    }
    const test::TempDir dir;
    dir.write("config.json", config.dump());
    auto files = models::dummy_checkpoint(dir.path(), "xavier");
    ASSERT_TRUE(files) << files.error().message();
    auto c = models::parse_config(**files, {}, 64);
    ASSERT_TRUE(c) << c.error().message();
    ASSERT_TRUE(models::resolve_engram(c->engram, c->vocab, (*files)->vocab(), nullptr, {.cache_dir = ""}, true));
    auto ops = *ops::make_cpu_ops({.threads = 2, .pin = false});
    const auto model = models::load_model(**files, *ops, {}, *c);
    ASSERT_TRUE(model) << model.error().message();
    auto direct = *models::Direct::create(**model, *ops, {.max_len = 40});
    const std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6, 7, 8};
    const models::Chunk chunk{.tokens = ids};
    const auto t = direct.step({&chunk, 1});
    ASSERT_TRUE(t) << t.error().message();
    EXPECT_TRUE(std::isfinite(t->row(0)[0]));
    if (tables_larger_than_memory) { EXPECT_EQ((*model)->engram_stats()->table_bytes, (384'006'168 + 384'016'682) * int64_t{256}); }
  }
}

TEST_F(Engram, WhatIsMissingOrWrongIsSaid) {
  const auto f = files();
  models::EngramConfig c = models::parse_config(*f, {}, 256)->engram;
  const auto resolved = [&](models::EngramConfig e, const VocabSource& v, const MakeTokenTexts& read) {
    const auto r = models::resolve_engram(e, 256, v, read, {.cache_dir = ""});
    return r ? "" : r.error().message();
  };
  EXPECT_EQ(resolved(c, f->vocab(), text::read_token_texts), "");
  EXPECT_THAT(resolved(c, {}, text::read_token_texts), HasSubstr("tokenizer.json"));
  EXPECT_THAT(resolved(c, f->vocab(), nullptr), HasSubstr("what tokens say"));
  models::EngramConfig other = c;
  ++other.vocab;
  EXPECT_THAT(resolved(other, f->vocab(), text::read_token_texts), HasSubstr("engram_compressed_vocab_size is"));
  other = config();
  ++other.rows[1];
  EXPECT_THAT(models::EngramHash::make(other).error().message(), HasSubstr("engram_num_embeddings of layer 4"));
}

}  // namespace
}  // namespace isotope::oracle
