#include "base/arena.h"

#include <gtest/gtest.h>

#include <cstring>

namespace isotope::base {
namespace {

TEST(Arena, PiecesAreAlignedAndDisjoint) {
  Arena arena;
  std::vector<std::span<char>> pieces;
  for (size_t n : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{3} << 20, size_t{7}}) {
    pieces.push_back(arena.take<char>(n));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pieces.back().data()) % Arena::kAlign, 0u);
    std::memset(pieces.back().data(), int(pieces.size()), n);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    for (char c : pieces[i]) ASSERT_EQ(c, char(i + 1));
  }
}

TEST(Arena, SecondRoundOfTheSameSizeAllocatesNothing) {
  Arena arena;
  auto round = [&] {
    arena.reset();
    for (int i = 0; i < 100; ++i) arena.take<float>(100'000);
  };
  round();
  round();
  const auto warm = arena.allocations();
  for (int i = 0; i < 5; ++i) round();
  EXPECT_EQ(arena.allocations(), warm);
}

TEST(Arena, GrowsGeometrically) {
  Arena arena;
  for (int i = 0; i < 4096; ++i) arena.take<char>(1 << 16);  // 256 MiB in all
  EXPECT_LE(arena.allocations(), 12);
}

TEST(Arena, ResetGivesEverythingBack) {
  Arena arena;
  arena.take<char>(1000);
  EXPECT_GE(arena.used(), 1000u);
  arena.reset();
  EXPECT_EQ(arena.used(), 0u);
}

}  // namespace
}  // namespace isotope::base
