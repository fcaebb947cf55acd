// The suite's own main: `oracle_test --goldens FOLDER` tests freshly made goldens instead of the committed ones.
#include <gtest/gtest.h>

#include <string>

#include "golden.h"

namespace isotope::oracle {
namespace {
std::string folder = ISOTOPE_SOURCE_DIR "/tests/oracle/goldens";
}
const std::string& goldens_folder() { return folder; }
}  // namespace isotope::oracle

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; ++i)
    if (std::string(argv[i]) == "--goldens") isotope::oracle::folder = argv[i + 1];
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
