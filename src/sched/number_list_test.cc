#include "sched/number_list.h"

#include <gtest/gtest.h>

namespace isotope::sched {
namespace {

TEST(NumberList, WholeItemsOnly) {
  double a = 1, b = 2;
  const NamedNumber known[] = {{"a", &a, 0, 10}, {"bee", &b, -1, 1e9}};
  EXPECT_TRUE(parse_numbers("", known, "--x"));
  ASSERT_TRUE(parse_numbers("bee=1e3,a=2.5,a=3", known, "--x"));
  EXPECT_EQ(a, 3);
  EXPECT_EQ(b, 1000);
  for (const char* bad : {"a", "a=", "a=x", "a=1x", "a= 1", "a=1,,bee=1", "c=1", "a=11", "a=-1", "a=nan", "a=inf", "bee=1e400", "A=1", "=1", ",", "a=1=2", "a=+1"}) {
    const auto r = parse_numbers(bad, known, "--x");
    ASSERT_FALSE(r) << bad;
    EXPECT_EQ(r.error().source, "--x");
    EXPECT_FALSE(r.error().remedy.empty());
  }
}

}  // namespace
}  // namespace isotope::sched
