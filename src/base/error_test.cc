#include <gtest/gtest.h>

#include "isotope/result.h"

namespace isotope {

TEST(Error, MessageNamesValueSourceAndRemedy) {
  const Error e{Code::unsupported, "this CPU cannot run 'avx512_vnni'", "--isa", "choose one that `isotope doctor` lists"};
  EXPECT_EQ(e.message(), "this CPU cannot run 'avx512_vnni' (--isa); choose one that `isotope doctor` lists");
}

}  // namespace isotope
