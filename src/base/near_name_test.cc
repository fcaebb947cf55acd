#include "base/near_name.h"

#include <gtest/gtest.h>

#include <string>

namespace isotope::base {
namespace {

TEST(NearName, FindsWhatWasMeant) {
  constexpr std::string_view kNames[] = {"temperature", "top_k", "top_p", "seed"};
  EXPECT_EQ(nearest_name("temprature", kNames), "temperature");
  EXPECT_EQ(nearest_name("tempereture", kNames), "temperature");
  EXPECT_EQ(nearest_name("top-k", kNames), "top_k");
  EXPECT_EQ(nearest_name("eos_token_id", kNames), "");
  EXPECT_EQ(nearest_name("x", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name(std::string(1000000, 't'), kNames), "");
}

}  // namespace
}  // namespace isotope::base
