#include "engine/journal.h"

#include <gtest/gtest.h>

namespace isotope::engine {
namespace {

using Kind = Decision::Kind;

TEST(Journal, KeepsTheBeginningAndTheEndOfALongStory) {
  Journal j(7, "cmpl-a", 3, 1'000'000'000);
  constexpr int kChunks = 200;
  for (int i = 0; i < kChunks; ++i) j.note({.kind = Kind::chunk, .tokens = 1, .position = i}, 1'000'000'000 + i * 1'000'000);
  const RequestRecord r = j.record();
  ASSERT_EQ(r.decisions.size(), Journal::kFirst + Journal::kLatest);
  for (size_t i = 0; i < Journal::kFirst; ++i) EXPECT_EQ(r.decisions[i].position, int64_t(i));
  for (size_t i = 0; i < Journal::kLatest; ++i) EXPECT_EQ(r.decisions[Journal::kFirst + i].position, int64_t(kChunks - Journal::kLatest + i));
  EXPECT_EQ(r.dropped, int64_t(kChunks - Journal::kFirst - Journal::kLatest));
  EXPECT_NEAR(r.decisions.back().at_s, 0.199, 1e-9);
  EXPECT_EQ(r.rank, 3);
}

TEST(Journal, CountsRepetitions) {
  Journal j(1, "", 0, 0);
  for (int round = 0; round < 100; ++round) {  // also when the list is a ring already
    for (int i = 0; i < 5; ++i) j.note({.kind = Kind::held, .reason = "filling"}, round * 100 + i);
    j.note({.kind = Kind::held, .reason = "interval"}, round * 100 + 9);
  }
  const RequestRecord r = j.record();
  ASSERT_EQ(r.decisions.size(), Journal::kFirst + Journal::kLatest);
  for (size_t i = 0; i < r.decisions.size(); ++i) EXPECT_EQ(r.decisions[i].count, i % 2 ? 1 : 5) << i;
  EXPECT_EQ(r.decisions.back().reason, "interval");
}

TEST(Journals, FindByIdLabelAndTime) {
  Journals all;
  all.open(1, "chatcmpl-mine", 0, 10);
  all.open(2, "chatcmpl-mine", 0, 11);
  all.open(3, "cmpl-other", 0, 12);
  all.of(1)->close(FinishReason::stop, {.output_tokens = 4});
  all.close(1);
  EXPECT_EQ(all.find("chatcmpl-mine", 9).size(), 2u);
  EXPECT_EQ(all.find("mine", 9).size(), 2u) << "the client's own id";
  ASSERT_EQ(all.find("1", 9).size(), 1u);
  EXPECT_EQ(all.find("1", 9)[0].finish, FinishReason::stop);
  EXPECT_EQ(all.find("1", 9)[0].stats.output_tokens, 4);
  EXPECT_EQ(all.find("", 2).front().id, 3u) << "the newest first";
  EXPECT_EQ(all.find("", 2).size(), 2u);
  EXPECT_TRUE(all.find("nobody", 9).empty());
  EXPECT_TRUE(all.find("99999999999999999999999", 9).empty());
  all.drop(3);
  EXPECT_TRUE(all.find("3", 9).empty());
}

TEST(Journals, TheOldestFinishedAreForgotten) {
  Journals all;
  for (uint64_t id = 0; id < Journals::kRemembered + 10; ++id) {
    all.open(id, "", 0, int64_t(id));
    all.close(id);
  }
  EXPECT_FALSE(all.of(9));
  EXPECT_TRUE(all.of(10));
}

}  // namespace
}  // namespace isotope::engine
